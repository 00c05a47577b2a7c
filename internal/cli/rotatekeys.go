package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network"
)

// newKeys generates a key pair, as the data for the Secret of a gateway.
func newKeys() (map[string][]byte, error) {
	var random [network.KeyLength]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, fmt.Errorf("making a pair of keys: %w", err)
	}
	return network.KeyPair(random)
}

// rotateKeys replaces the keys of the local gateway without interrupting the tunnel. The remote gateway accepts the new key in addition to
// the old one before the local gateway uses it.
func (p *pair) rotateKeys(ctx context.Context) error {
	t, err := p.ends(ctx, &networkOptions{}, false)
	if err != nil {
		return err
	}
	local, remote := t.client, t.server
	if local.cluster != p.local {
		local, remote = remote, local
	}
	if local.gateways.name() == "" || remote.gateways.name() == "" {
		return fmt.Errorf("there is no tunnel between %s and %s whose keys could be changed: liqoctl network connect makes one", p.local.id, p.remote.id)
	}
	keys, err := newKeys()
	if err != nil {
		return err
	}
	if err := remote.ensureKey(ctx, remote.namespace, remote.peer, keys[networkingv1beta1.SecretPublicKey], "holds the new key too"); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: local.namespace, Name: local.gateways.secret()}}
	if _, err := local.ensure(ctx, secret, func() error {
		if secret.ResourceVersion == "" {
			return fmt.Errorf("there is no Secret %s in namespace %s with the keys of %s: the controller manager makes it, run the command again then", secret.Name, secret.Namespace, local.gateways.describe())
		}
		secret.Data = keys
		return nil
	}); err != nil {
		return err
	}
	local.Did("Secret %s has new keys", secret.Name)
	began := time.Now()
	err = together(ctx, func(ctx context.Context) error { return local.reconnected(ctx, secret) },
		func(ctx context.Context) error { return remote.reconnected(ctx, secret) })
	if err != nil {
		return fmt.Errorf("%w\n%s", err, t.evidence(time.Since(began)))
	}
	local.Did("Connection is established with the new keys")
	return nil
}

// reconnected waits until the tunnel is connected and the gateway has measured a round trip after the Secret was written.
func (e *end) reconnected(ctx context.Context, written *corev1.Secret) error {
	var since metav1.Time
	for _, entry := range written.ManagedFields {
		if entry.Time != nil && entry.Time.After(since.Time) {
			since = *entry.Time
		}
	}
	object := e.connection()
	step := e.Start("Waiting for the tunnel to cluster %s", e.peer)
	defer step.End()
	return e.wait(ctx, step, object, func() verdict {
		latency := object.Status.Latency
		switch {
		case object.Status.Value != networkingv1beta1.Connected:
			return notYet("it is %s%s", orDefault(object.Status.Value, "without a status"), reasons(object.Status.Conditions))
		case latency == nil || !latency.Timestamp.After(since.Add(handover)):
			return notYet("nothing was heard through it since the keys are new")
		}
		return yes()
	})
}

// handover is how long responses to the old keys may still arrive.
const handover = 2 * time.Second
