package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"liqo.io/liqo/internal/cli/admission"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/dashboard"
	"liqo.io/liqo/internal/cli/inspect"
	"liqo.io/liqo/internal/cli/moving"
	"liqo.io/liqo/internal/cli/nettest"
	"liqo.io/liqo/internal/cli/networking"
	"liqo.io/liqo/internal/cli/object"
	"liqo.io/liqo/internal/cli/offloading"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/setup"
)

// interruptedCode is the exit code that shells use for a program ended by SIGINT.
const interruptedCode = 130

// Main runs liqoctl with the arguments and returns its exit code: 0 for success, 1 for a failed command, and 130 for an interrupted one.
func Main(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	// The log output of the libraries is discarded: liqoctl reports everything itself.
	quiet()
	return execute(ctx, session.New(streams), args)
}

func execute(ctx context.Context, a *session.Session, args []string) int {
	root := newRoot(a)
	a.Args = args
	root.SetArgs(args)
	root.SetContext(ctx)
	if err := root.ExecuteContext(ctx); err != nil {
		if waiting := (*session.WaitError)(nil); ctx.Err() != nil && !errors.As(err, &waiting) {
			err = fmt.Errorf("interrupted: %w", err)
		}
		a.Console().Fail(a.Journal.WithChanges(session.Cured(err)))
		if errors.Is(ctx.Err(), context.Canceled) {
			return interruptedCode
		}
		return 1
	}
	if a.DryRun {
		reportDryRun(a)
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

// newRoot builds the tree of all commands.
func newRoot(a *session.Session) *cobra.Command {
	root := &cobra.Command{
		Use:         "liqoctl",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: cmdline.ProgramName(os.Args)},
		Short:       "Peer Kubernetes clusters and run pods of one cluster in another",
		Long: "liqoctl installs Liqo, peers clusters, offloads namespaces, shows their state, and undoes each of these steps.\n\n" +
			"It follows the conventions of kubectl: KUBECONFIG, --kubeconfig and --context choose the local cluster,\n" +
			"--remote-kubeconfig and --remote-context the remote cluster of a peering.",
		Example: cmdline.Example(`
			# Two clusters, each with a kubeconfig of its own
			%[1]s install --cluster-id rome
			%[1]s install --cluster-id milan --kubeconfig milan.yaml
			# Pods of rome may run in milan
			%[1]s peer --remote-kubeconfig milan.yaml
			%[1]s offload namespace demo`),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cmdline.UnknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		// A command with its own PersistentPreRunE skips session.ChoosePeer, because cobra runs only one. Such commands need no peer.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return session.ChoosePeer(cmd, a) },
	}
	root.SetIn(a.Streams.In)
	root.SetOut(a.Streams.Out)
	root.SetErr(a.Streams.ErrOut)
	flags := root.PersistentFlags()
	flags.SortFlags = true
	a.Kubeconfig.AddFlags(flags)
	flags.Lookup("namespace").Usage = "Namespace of the named object (default: that of the context in the kubeconfig); for commands about Liqo itself, the namespace of the installation (default: found automatically, or liqo for a new installation)"
	flags.BoolVar(&a.SkipConfirm, "skip-confirm", false, "Do not ask for confirmation")
	flags.BoolVar(&a.AllowExec, session.AllowExecFlag, false, "Run the programs and read the files that the kubeconfigs of remote clusters name (your own kubeconfig always may)")
	flags.BoolVarP(&a.Verbose, "verbose", "v", false, "Print more details")
	flags.StringToStringVar(&a.Labels, "global-labels", nil, "Labels to put on every object created (key=value,...)")
	flags.StringToStringVar(&a.Annotations, "global-annotations", nil, "Annotations to put on every object created (key=value,...)")
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
	add(groupInstall, setup.InstallCommand(a), setup.UninstallCommand(a), setup.VersionCommand(a), inspect.InfoCommand(a), inspect.StatusCommand(a), inspect.DoctorCommand(a),
		dashboard.Command(a),
		nettest.Command(a))
	add(groupPeer, peerCommand(a), unpeerCommand(a), networking.Command(a, askForNetwork), authenticateCommand(a), unauthenticateCommand(a), forceCommand(a),
		discoverCommand(a))
	add(groupOffload, offloading.Command(a), offloading.UnoffloadCommand(a), moving.Command(a))
	add(groupAdmission, admission.CordonCommand(a), admission.UncordonCommand(a), admission.DrainCommand(a), admission.ActivateCommand(a))
	root.AddCommand(object.CreateCommand(a), object.GenerateCommand(a), object.GetCommand(a), object.DeleteCommand(a), docsCommand(), optionsCommand(a))
	completeFlags(a, root)
	root.SetFlagErrorFunc(cmdline.FlagError)
	root.SetUsageTemplate(usage)
	return root
}

const (
	groupInstall   = "install"
	groupPeer      = "peer"
	groupOffload   = "offload"
	groupAdmission = "admission"
)

// reportDryRun prints the last line of a dry run that succeeded.
func reportDryRun(a *session.Session) {
	if a.Changes.Load() == 0 {
		a.Console().Info("Dry run: no changes needed")
		return
	}
	a.Console().Info("Dry run succeeded: no changes applied")
}
