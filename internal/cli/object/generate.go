package object

import (
	"strings"

	"github.com/spf13/cobra"

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

// GenerateCommand returns the command that prints manifests for the administrator of a peer.
func GenerateCommand(a *session.Session) *cobra.Command {
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
