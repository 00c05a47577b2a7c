package tunnel

import (
	"bytes"
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
)

// PublicKey returns the PublicKey of a peer's gateway.
func PublicKey(namespace, name, peer string, key []byte) *networkingv1beta1.PublicKey {
	out := &networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	FillPublicKey(out, peer, key)
	return out
}

// FillPublicKey sets the fields of the PublicKey of a peer's gateway.
func FillPublicKey(object *networkingv1beta1.PublicKey, peer string, key []byte) {
	kube.AddLabels(object, map[string]string{api.LabelRemoteClusterID: peer, networkingv1beta1.LabelGatewayResource: api.True})
	object.Spec.PublicKey = key
}

// KeysGoal waits until the Secret of a gateway has its public key.
func KeysGoal(c *session.Cluster, secret *corev1.Secret, gateway *Gateways) *session.Goal {
	return &session.Goal{
		Object: secret, Doing: "Waiting for the keys of " + gateway.describe(),
		Met: func() session.Verdict {
			switch key := secret.Data[networkingv1beta1.SecretPublicKey]; len(key) {
			case network.KeyLength:
				return session.Yes()
			case 0:
				return session.NotYet("the controller manager has not written data.%s", networkingv1beta1.SecretPublicKey)
			default:
				return session.Never("data.%s has %d bytes, a key has %d: delete the Secret, a new pair is made",
					networkingv1beta1.SecretPublicKey, len(key), network.KeyLength)
			}
		},
		Answer: func() {
			secret.Data = map[string][]byte{networkingv1beta1.SecretPublicKey: make([]byte, network.KeyLength)}
		},
		Trouble: func() string { return GatewayTrouble(c, secret.Namespace, gateway) },
	}
}

// ensureKey stores the public key of the peer's gateway in this cluster, in the PublicKey that the gateway uses, if there is one. It replaces a
// different key, because the peer's gateway cannot connect while that is stored. The argument replaced is the message for this case.
func ensureKey(ctx context.Context, c *session.Cluster, namespace, peer string, key []byte, replaced string) error {
	var keys networkingv1beta1.PublicKeyList
	if err := session.ListOfPeer(ctx, c, &keys, namespace, peer); err != nil {
		return err
	}
	object := &networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peer}}
	if counts := network.PublicKeyInUse(keys.Items, namespace, peer); counts != nil {
		object.Name = counts.Name
	}
	var before []byte
	changed, err := c.Ensure(ctx, object, func() error {
		before = bytes.Clone(object.Spec.PublicKey)
		FillPublicKey(object, peer, key)
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
