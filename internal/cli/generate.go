package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
)

// gatewayKind returns the kind of gateway that users call "server" or "client".
func gatewayKind(name string) (session.Kind, error) {
	switch strings.ToLower(name) {
	case "server":
		return session.KindServer, nil
	case "client":
		return session.KindClient, nil
	}
	return session.Kind{}, cmdline.OneOf("gateway-type", name, "server", "client")
}

func generateCommand(a *session.Session) *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:   "generate",
		Short: "Generate manifests to apply on the peer",
		Long: "Print manifests of this cluster that the administrator of another cluster applies there. Use them if no administrator has access to\n" +
			"both clusters.",
		Example: cmdline.Example(`
			# Run in rome, to be applied in milan
			%[1]s generate configuration > rome.yaml`),
	}, generateConfigurationCommand(a), generatePublicKeyCommand(a), generateTenantCommand(a), generateIdentityCommand(a), generatePeeringUserCommand(a),
		generatePeerCommandCommand(a), generateDNSRecordsCommand(a))
}

// addPeerFlag registers the required flag with the cluster ID of the peer.
func addPeerFlag(command *cobra.Command, peer *string) {
	command.Flags().StringVar(peer, "remote-cluster-id", "", "Cluster ID of the peer (required)")
	cmdline.Required(command, "remote-cluster-id")
	session.BeginsPeering(command)
}

// addGenerateFlags registers the common flags of all commands that print an object for a peer.
func addGenerateFlags(flags *pflag.FlagSet, output *cmdline.Output, namespace *string, timeout *time.Duration) {
	addTimeout(flags, timeout)
	flags.StringVarP(&output.Format, "output", "o", "yaml", "How to print the object: json or yaml")
	flags.StringVar(namespace, "remote-tenant-namespace", "", "Namespace of the object in the peer (default: liqo-tenant- and the ID of this cluster)")
}

// addTimeout registers --timeout with a command that mostly reads and waits little.
func addTimeout(flags *pflag.FlagSet, timeout *time.Duration) {
	flags.DurationVar(timeout, "timeout", time.Minute, "Maximum time for the whole command")
}
