package object

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
	"liqo.io/liqo/internal/network"
)

func createPublicKeyCommand(a *session.Session) *cobra.Command {
	var f creation
	var text string
	var key []byte
	command := &cobra.Command{
		Use:     "publickey",
		Aliases: []string{"pk", "pkey"},
		Short:   "Create the PublicKey of a peer's gateway",
		Long: "Create a PublicKey with the WireGuard public key of a peer's gateway. Without it the gateway of this cluster accepts no connection\n" +
			"from the peer. The name of the PublicKey is the peer's cluster ID.",
		Example: cmdline.Example(`
			%[1]s create publickey --remote-cluster-id milan --public-key V5CPzlnz2Y39n9dL7kXpEcb6UqzIHgZbVYXXh2E1w3g=`),
		Args: cobra.NoArgs,
		RunE: a.OnInstalled(&f.timeout, func() (err error) {
			if key, err = base64.StdEncoding.DecodeString(strings.TrimSpace(text)); err != nil || len(key) != network.KeyLength {
				err = fmt.Errorf("--public-key %s: want the %d bytes of a WireGuard public key in base64, 44 characters", text, network.KeyLength)
			}
			return cmp.Or(f.output.Validate(), err)
		}, func(ctx context.Context, local *session.Cluster, _ []string) error {
			object := &networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Name: f.peer}}
			return f.create(ctx, local, object, func() { tunnel.FillPublicKey(object, f.peer, key) })
		}),
	}
	f.add(a, command, "peer", time.Minute, "")
	command.Flags().StringVar(&text, "public-key", "", "The key in base64 (required)")
	cmdline.Required(command, "public-key")
	return command
}

func generatePublicKeyCommand(a *session.Session) *cobra.Command {
	var f generation
	var gatewayType, name string
	command := &cobra.Command{
		Use:     "publickey",
		Aliases: []string{"pk", "pkey"},
		Short:   "Generate the PublicKey of a gateway, to be applied on the peer",
		Long: "Print a PublicKey with the WireGuard public key of this cluster's gateway, to be applied on a peer. It holds no secret. Apply it in\n" +
			"the peer's tenant namespace for this cluster, which must exist.",
		Example: cmdline.Example(`
			# Run in rome, whose gateway for milan is a client; to be applied in milan: kubectl apply -f key.yaml
			%[1]s generate publickey --gateway-type client --gateway-name milan > key.yaml`),
		Args: cobra.NoArgs,
		RunE: session.WithTimeout(&f.timeout, func(ctx context.Context, _ []string) error {
			if err := f.output.Validate(); err != nil {
				return err
			}
			kind, err := gatewayKind(gatewayType)
			if err != nil {
				return err
			}
			local, within, err := a.InstalledWithin(ctx)
			if err != nil {
				return err
			}
			object, err := session.FindObject(ctx, local, kind, within, name)
			if err != nil {
				return err
			}
			gateway := &tunnel.Gateways{}
			switch object := object.(type) {
			case *networkingv1beta1.GatewayServer:
				gateway.Server = object
			case *networkingv1beta1.GatewayClient:
				gateway.Client = object
			}
			keys := gateway.Keys(object.GetNamespace())
			if err := local.Reach(ctx, tunnel.KeysGoal(local, keys, gateway)); err != nil {
				return err
			}
			return f.print(local, tunnel.PublicKey("", local.ID, local.ID, keys.Data[networkingv1beta1.SecretPublicKey]))
		}),
	}
	flags := command.Flags()
	flags.StringVar(&gatewayType, "gateway-type", "", "Role of the gateway in this cluster: server or client (required)")
	flags.StringVar(&name, "gateway-name", "", "Name of the GatewayServer or GatewayClient, usually the peer's cluster ID (required)")
	f.add(command)
	cmdline.Required(command, "gateway-type", "gateway-name")
	session.CompleteOneOf(command, "gateway-type", "server", "client")
	session.CompleteFlag(command, "gateway-name", a.CompleteNames(session.KindServer, session.KindClient))
	return command
}
