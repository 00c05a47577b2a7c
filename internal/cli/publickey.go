package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network"
)

// publicKey returns the PublicKey of a peer's gateway.
func publicKey(namespace, name, peer string, key []byte) *networkingv1beta1.PublicKey {
	out := &networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	fillPublicKey(out, peer, key)
	return out
}

func fillPublicKey(object *networkingv1beta1.PublicKey, peer string, key []byte) {
	setLabel(object, api.LabelRemoteClusterID, peer)
	setLabel(object, networkingv1beta1.LabelGatewayResource, api.True)
	object.Spec.PublicKey = key
}

// keysGoal waits until the Secret of a gateway has its public key.
func keysGoal(c *cluster, secret *corev1.Secret, gateway *gateways) *goal {
	return &goal{
		object: secret, doing: "Waiting for the keys of " + gateway.describe(),
		met: func() verdict {
			switch key := secret.Data[networkingv1beta1.SecretPublicKey]; len(key) {
			case network.KeyLength:
				return yes()
			case 0:
				return notYet("the controller manager has not written data.%s", networkingv1beta1.SecretPublicKey)
			default:
				return never("data.%s has %d bytes, a key has %d: delete the Secret, a new pair is made",
					networkingv1beta1.SecretPublicKey, len(key), network.KeyLength)
			}
		},
		answer: func() {
			secret.Data = map[string][]byte{networkingv1beta1.SecretPublicKey: make([]byte, network.KeyLength)}
		},
		trouble: func() string { return gatewayTrouble(c, secret.Namespace, gateway) },
	}
}

// ensureKey stores the public key of the peer's gateway in this cluster, in the PublicKey that the gateway uses, if there is one. It replaces a
// different key, because the peer's gateway cannot connect while that is stored. The argument replaced is the message for this case.
func ensureKey(ctx context.Context, c *cluster, namespace, peer string, key []byte, replaced string) error {
	var keys networkingv1beta1.PublicKeyList
	if err := listOfPeer(ctx, c, &keys, namespace, peer); err != nil {
		return err
	}
	object := &networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peer}}
	if counts := network.PublicKeyInUse(keys.Items, namespace, peer); counts != nil {
		object.Name = counts.Name
	}
	var before []byte
	changed, err := c.ensure(ctx, object, func() error {
		before = bytes.Clone(object.Spec.PublicKey)
		fillPublicKey(object, peer, key)
		return nil
	})
	switch {
	case err != nil:
		return err
	case len(before) > 0 && !bytes.Equal(before, key):
		c.Did("PublicKey %s %s", object.Name, replaced)
	case changed:
		c.Did("PublicKey %s correctly ensured", object.Name)
	default:
		c.Verbose("PublicKey %s is there already", object.Name)
	}
	return nil
}

func createPublicKeyCommand(a *app) *cobra.Command {
	var peer, text string
	var key []byte
	var timeout time.Duration
	var output outputFlag
	command := &cobra.Command{
		Use:     "publickey",
		Aliases: []string{"pk", "pkey"},
		Short:   "Create the PublicKey of a peer's gateway",
		Long: "Create a PublicKey with the WireGuard public key of a peer's gateway. Without it the gateway of this cluster accepts no connection\n" +
			"from the peer. The name of the PublicKey is the peer's cluster ID.",
		Example: example(`
			%[1]s create publickey --remote-cluster-id milan --public-key V5CPzlnz2Y39n9dL7kXpEcb6UqzIHgZbVYXXh2E1w3g=`),
		Args: cobra.NoArgs,
		RunE: a.onInstalled(&timeout, func() (err error) {
			if key, err = base64.StdEncoding.DecodeString(strings.TrimSpace(text)); err != nil || len(key) != network.KeyLength {
				err = fmt.Errorf("--public-key %s: want the %d bytes of a WireGuard public key in base64, 44 characters", text, network.KeyLength)
			}
			return cmp.Or(output.validate(), err)
		}, func(ctx context.Context, local *cluster, _ []string) error {
			if output.format != "" {
				return printObject(local, publicKey(api.TenantNamespace(peer), peer, peer, key), output.format)
			}
			namespace, err := ensureTenantNamespace(ctx, local, peer)
			if err != nil {
				return err
			}
			object := &networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peer}}
			return createOrUpdate(ctx, local, object, func() { fillPublicKey(object, peer, key) })
		}),
	}
	a.addPeerFlag(command, &peer)
	command.Flags().StringVar(&text, "public-key", "", "The key in base64 (required)")
	output.add(command.Flags(), "Only print the object, do not create it")
	addTimeout(command.Flags(), &timeout)
	a.addDryRun(command.Flags())
	required(command, "public-key")
	return command
}

func generatePublicKeyCommand(a *app) *cobra.Command {
	var gatewayType, name, namespace string
	var timeout time.Duration
	var output outputFlag
	command := &cobra.Command{
		Use:     "publickey",
		Aliases: []string{"pk", "pkey"},
		Short:   "Generate the PublicKey of a gateway, to be applied on the peer",
		Long: "Print a PublicKey with the WireGuard public key of this cluster's gateway, to be applied on a peer. It holds no secret. Apply it in\n" +
			"the peer's tenant namespace for this cluster, which must exist.",
		Example: example(`
			# Run in rome, whose gateway for milan is a client; to be applied in milan: kubectl apply -f key.yaml
			%[1]s generate publickey --gateway-type client --gateway-name milan > key.yaml`),
		Args: cobra.NoArgs,
		RunE: withTimeout(&timeout, func(ctx context.Context, _ []string) error {
			if err := output.validate(); err != nil {
				return err
			}
			kind, err := gatewayKind(gatewayType)
			if err != nil {
				return err
			}
			local, within, err := a.installedWithin(ctx)
			if err != nil {
				return err
			}
			object, err := findObject(ctx, local, kind, within, name)
			if err != nil {
				return err
			}
			gateway := &gateways{}
			switch object := object.(type) {
			case *networkingv1beta1.GatewayServer:
				gateway.server = object
			case *networkingv1beta1.GatewayClient:
				gateway.client = object
			}
			keys := gateway.keys(object.GetNamespace())
			if err := local.reach(ctx, keysGoal(local, keys, gateway)); err != nil {
				return err
			}
			return printObject(local, publicKey(orDefault(namespace, api.TenantNamespace(local.id)), local.id, local.id, keys.Data[networkingv1beta1.SecretPublicKey]), output.format)
		}),
	}
	flags := command.Flags()
	flags.StringVar(&gatewayType, "gateway-type", "", "Role of the gateway in this cluster: server or client (required)")
	flags.StringVar(&name, "gateway-name", "", "Name of the GatewayServer or GatewayClient, usually the peer's cluster ID (required)")
	addGenerateFlags(flags, &output, &namespace, &timeout)
	required(command, "gateway-type", "gateway-name")
	oneOf(command, "gateway-type", "server", "client")
	completeFlag(command, "gateway-name", a.names(kindServer, kindClient))
	return command
}
