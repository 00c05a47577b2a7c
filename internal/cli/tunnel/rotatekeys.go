package tunnel

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/network"
)

// newKeys generates a key pair, as the data for the Secret of a gateway.
func newKeys() (map[string][]byte, error) {
	var random [network.KeyLength]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, fmt.Errorf("creating a pair of keys: %w", err)
	}
	return network.KeyPair(random)
}

// RotateKeys replaces the keys of the local gateway without interrupting the tunnel. The remote gateway accepts the new key in addition to
// the old one before the local gateway uses it.
func RotateKeys(ctx context.Context, p *session.Pair) error {
	if err := p.FindNamespaces(ctx); err != nil {
		return err
	}
	t, err := Between(ctx, p, &Options{})
	if err != nil {
		return err
	}
	local, remote := t.Client, t.Server
	if local.Cluster != p.Local {
		local, remote = remote, local
	}
	if local.Gateways.Name() == "" || remote.Gateways.Name() == "" {
		return fmt.Errorf("there is no tunnel between %s and %s: create one with liqoctl network connect", p.Local.ID, p.Remote.ID)
	}
	keys, err := newKeys()
	if err != nil {
		return err
	}
	if err := ensureKey(ctx, remote.Cluster, remote.TenantNamespace, remote.Peer, keys[networkingv1beta1.SecretPublicKey], "holds the new key too"); err != nil {
		return err
	}
	secret := local.Gateways.Keys(local.TenantNamespace)
	if _, err := local.Ensure(ctx, secret, func() error {
		if secret.ResourceVersion == "" {
			return fmt.Errorf("there is no Secret %s in namespace %s with the keys of %s: the controller manager creates it; run the command again in a moment", secret.Name, secret.Namespace, local.Gateways.describe())
		}
		secret.Data = keys
		return nil
	}); err != nil {
		return err
	}
	local.Did("Secret %s has new keys", secret.Name)
	began := time.Now()
	if err := session.Together(ctx, local.ToReach(local.reconnectedGoal(secret)), remote.ToReach(remote.reconnectedGoal(secret))); err != nil {
		return fmt.Errorf("%w\n%s", err, t.evidence(time.Since(began)))
	}
	local.Did("Connection is established with the new keys")
	return nil
}

// reconnectedGoal waits until the tunnel is connected and the gateway has measured a round trip after the Secret was written.
func (e *End) reconnectedGoal(written *corev1.Secret) *session.Goal {
	var since metav1.Time
	for _, entry := range written.ManagedFields {
		if entry.Time != nil && entry.Time.After(since.Time) {
			since = *entry.Time
		}
	}
	object := e.Connection()
	return &session.Goal{
		Object: object, Doing: "Waiting for the tunnel to cluster " + e.Peer,
		Met: func() session.Verdict {
			latency, connected := object.Status.Latency, connectedVerdict(object)
			if connected.Done && (latency == nil || !latency.Timestamp.After(since.Add(handover))) {
				return session.NotYet("nothing was received through it since the keys were replaced")
			}
			return connected
		},
	}
}

// handover is the time during which responses that were sent with the old keys may still arrive.
const handover = 2 * time.Second
