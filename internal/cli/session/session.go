package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/preview"
)

// Session is the state that all commands share: the global flags and the output streams.
type Session struct {
	Streams       genericiooptions.IOStreams
	Args          []string // the command line
	Kubeconfig    *genericclioptions.ConfigFlags
	SkipConfirm   bool
	DryRun        bool         // see AddDryRun
	DeleteVolumes bool         // see the flag --delete-volumes
	Changes       atomic.Int32 // the number of changes that a dry run printed
	Verbose       bool
	AllowExec     bool // see checkForeign
	Labels        map[string]string
	Annotations   map[string]string
	sharedConsole *console.Console
	Journal       preview.Journal
	// Wrap modifies the configuration of each connection. nil uses the kubeconfig as it is.
	Wrap func(*rest.Config) *rest.Config
	// Resolve looks up the addresses of a host name.
	Resolve func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// New returns a session with the streams. The flags have no values yet.
func New(streams genericiooptions.IOStreams) *Session {
	return &Session{Streams: streams, Kubeconfig: ConnectionFlags(), Resolve: net.DefaultResolver.LookupNetIP}
}

// ConnectionFlags returns the flags of kubectl that select the cluster, the user and the namespace.
func ConnectionFlags() *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(true)
	return &genericclioptions.ConfigFlags{
		KubeConfig: flags.KubeConfig, ClusterName: flags.ClusterName, AuthInfoName: flags.AuthInfoName, Context: flags.Context,
		Namespace: flags.Namespace, Timeout: new(string),
	}
}

// Console returns the console of the command. All clusters of a session write to it.
func (s *Session) Console() *console.Console {
	if s.sharedConsole == nil {
		s.sharedConsole = console.New(s.Streams.Out, s.Streams.ErrOut, s.Verbose)
	}
	return s.sharedConsole
}

// Confirm asks the user for confirmation. An empty answer means no.
func (s *Session) Confirm(question string) error {
	if s.SkipConfirm || s.DryRun {
		return nil
	}
	fmt.Fprintf(s.Streams.ErrOut, "%s [y/N] ", question)
	var answer string
	if _, err := fmt.Fscanln(s.Streams.In, &answer); err != nil && !errors.Is(err, io.EOF) && err.Error() != "unexpected newline" {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if answer != "y" && answer != "Y" && answer != "yes" {
		return errors.New("not confirmed: nothing was changed (--skip-confirm answers yes)")
	}
	return nil
}
