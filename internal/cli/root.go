package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/preview"
)

// interruptedCode is the exit code that shells use for a program ended by SIGINT.
const interruptedCode = 130

// Main runs liqoctl with the arguments and returns its exit code: 0 for success, 1 for a failed command, and 130 for an interrupted one.
func Main(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	// The log output of the libraries is discarded: liqoctl reports everything itself.
	quiet()
	return newApp(streams).run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.command()
	a.args = args
	root.SetArgs(args)
	root.SetContext(ctx)
	if err := root.ExecuteContext(ctx); err != nil {
		if waiting := (*waitError)(nil); ctx.Err() != nil && !errors.As(err, &waiting) {
			err = fmt.Errorf("interrupted: %w", err)
		}
		a.console().Fail(a.journal.WithChanges(cured(err)))
		if errors.Is(ctx.Err(), context.Canceled) {
			return interruptedCode
		}
		return 1
	}
	if a.dryRun {
		a.reportDryRun()
	}
	return 0
}

// quiet discards the log output of the libraries. It does so once, because klog forbids changing its logger while other goroutines log: tests run
// several commands at the same time.
var quiet = sync.OnceFunc(func() {
	logger := logr.FromSlogHandler(slog.DiscardHandler)
	log.SetLogger(logger)
	klog.SetLogger(logger)
})

// app is the state that all commands share: the global flags and the output streams.
type app struct {
	streams       genericiooptions.IOStreams
	args          []string // the command line
	kubeconfig    *genericclioptions.ConfigFlags
	skipConfirm   bool
	dryRun        bool         // see addDryRun
	deleteVolumes bool         // see addDeleteVolumes
	changes       atomic.Int32 // the number of changes that a dry run printed
	verbose       bool
	allowExec     bool // see checkForeign
	labels        map[string]string
	annotations   map[string]string
	sharedConsole *console.Console
	journal       preview.Journal
	// wrap modifies the configuration of each connection. nil uses the kubeconfig as it is.
	wrap func(*rest.Config) *rest.Config
	// resolve looks up the addresses of a host name.
	resolve func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

func newApp(streams genericiooptions.IOStreams) *app {
	return &app{streams: streams, kubeconfig: connectionFlags(), resolve: net.DefaultResolver.LookupNetIP}
}

// connectionFlags returns the flags of kubectl that select the cluster, the user and the namespace.
func connectionFlags() *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(true)
	return &genericclioptions.ConfigFlags{
		KubeConfig: flags.KubeConfig, ClusterName: flags.ClusterName, AuthInfoName: flags.AuthInfoName, Context: flags.Context,
		Namespace: flags.Namespace, Timeout: new(string),
	}
}

func (a *app) console() *console.Console {
	if a.sharedConsole == nil {
		a.sharedConsole = console.New(a.streams.Out, a.streams.ErrOut, a.verbose)
	}
	return a.sharedConsole
}

// command builds the tree of all commands.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:         "liqoctl",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: programName(os.Args)},
		Short:       "Peer Kubernetes clusters and run pods of one cluster in another",
		Long: "liqoctl installs Liqo, peers clusters, offloads namespaces, shows their state, and undoes each of these steps.\n\n" +
			"It follows the conventions of kubectl: KUBECONFIG, --kubeconfig and --context choose the local cluster,\n" +
			"--remote-kubeconfig and --remote-context the remote cluster of a peering.",
		Example: example(`
			# Two clusters, each with a kubeconfig of its own
			%[1]s install --cluster-id rome
			%[1]s install --cluster-id milan --kubeconfig milan.yaml
			# Pods of rome may run in milan
			%[1]s peer --remote-kubeconfig milan.yaml
			%[1]s offload namespace demo`),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		// A command with its own PersistentPreRunE skips choosePeer, because cobra runs only one. Such commands need no peer.
		PersistentPreRunE: a.choosePeer,
	}
	root.SetIn(a.streams.In)
	root.SetOut(a.streams.Out)
	root.SetErr(a.streams.ErrOut)
	flags := root.PersistentFlags()
	flags.SortFlags = true
	a.kubeconfig.AddFlags(flags)
	flags.Lookup("namespace").Usage = "Namespace: that of the installation where a command is about Liqo itself (default: found automatically; liqo for a new one)"
	flags.BoolVar(&a.skipConfirm, "skip-confirm", false, "Do not ask for confirmation")
	flags.BoolVar(&a.allowExec, allowExecFlag, false, "Run the programs and read the files that the kubeconfigs of remote clusters name (your own kubeconfig always may)")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "Print more details")
	flags.StringToStringVar(&a.labels, "global-labels", nil, "Labels to put on every object created (key=value,...)")
	flags.StringToStringVar(&a.annotations, "global-annotations", nil, "Annotations to put on every object created (key=value,...)")
	root.SetHelpCommand(&cobra.Command{Hidden: true})
	root.AddGroup(
		&cobra.Group{ID: groupInstall, Title: "Installation:"},
		&cobra.Group{ID: groupPeer, Title: "Peering:"},
		&cobra.Group{ID: groupOffload, Title: "Offloading:"},
		&cobra.Group{ID: groupAdmission, Title: "What a provider grants:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, command := range commands {
			command.GroupID = group
			root.AddCommand(command)
		}
	}
	add(groupInstall, installCommand(a), uninstallCommand(a), versionCommand(a), infoCommand(a), statusCommand(a), doctorCommand(a),
		dashboardCommand(a),
		testCommand(a))
	add(groupPeer, peerCommand(a), unpeerCommand(a), networkCommand(a), authenticateCommand(a), unauthenticateCommand(a), forceCommand(a),
		discoverCommand(a))
	add(groupOffload, offloadCommand(a), unoffloadCommand(a), moveCommand(a))
	add(groupAdmission, cordonCommand(a), uncordonCommand(a), drainCommand(a), activateCommand(a))
	root.AddCommand(createCommand(a), generateCommand(a), getCommand(a), deleteCommand(a), docsCommand(), optionsCommand(a))
	a.completeFlags(root)
	root.SetFlagErrorFunc(unknownFlag)
	root.SetUsageTemplate(usage)
	return root
}

const (
	groupInstall   = "install"
	groupPeer      = "peer"
	groupOffload   = "offload"
	groupAdmission = "admission"
)

// group returns a command that only has subcommands. It fails if it is called without a known subcommand.
func group(command *cobra.Command, children ...*cobra.Command) *cobra.Command {
	command.Args = unknownCommand
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("%s needs a subcommand: %s --help lists them", cmd.CommandPath(), cmd.CommandPath())
	}
	command.AddCommand(children...)
	return command
}

// confirm asks the user for confirmation. An empty answer means no.
func (a *app) confirm(question string) error {
	if a.skipConfirm || a.dryRun {
		return nil
	}
	fmt.Fprintf(a.streams.ErrOut, "%s [y/N] ", question)
	var answer string
	if _, err := fmt.Fscanln(a.streams.In, &answer); err != nil && !errors.Is(err, io.EOF) && err.Error() != "unexpected newline" {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if answer != "y" && answer != "Y" && answer != "yes" {
		return errors.New("not confirmed: nothing was changed (--skip-confirm answers yes)")
	}
	return nil
}
