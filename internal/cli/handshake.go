package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/peering"
)

// handshake introduces the local cluster to the remote one and stores the granted identity locally. Each step reads the current state
// first. An interrupted handshake therefore resumes where it stopped, and a complete one changes nothing.
type handshake struct {
	*pair
	// consumer is the tenant namespace in the local cluster. provider is the tenant namespace in the remote cluster.
	consumer, provider string
	// proxyURL is the proxy to the remote API server to set in the identity; "" removes it. nil keeps the current one.
	proxyURL *string
}

// authenticate runs the whole handshake.
func (p *pair) authenticate(ctx context.Context, proxyURL *string) error {
	h := &handshake{pair: p, proxyURL: proxyURL}
	if err := h.namespaces(ctx); err != nil {
		return err
	}
	nonce, err := p.remote.ensureNonce(ctx, h.provider, p.local.id)
	if err != nil {
		return err
	}
	signature, err := h.sign(ctx, nonce)
	if err != nil {
		return err
	}
	tenant, err := h.tenant(ctx, signature)
	if err != nil {
		return err
	}
	return h.identity(ctx, tenant)
}

func (h *handshake) namespaces(ctx context.Context) error {
	return both(
		func() (err error) { h.consumer, err = h.local.ensureTenantNamespace(ctx, h.remote.id); return },
		func() (err error) { h.provider, err = h.remote.ensureTenantNamespace(ctx, h.local.id); return },
	)
}

// ensureNonce requests a nonce that a consumer must sign, and waits until the controller manager has generated it.
func (c *cluster) ensureNonce(ctx context.Context, namespace, consumer string) ([]byte, error) {
	step := c.Start("Asking for a nonce")
	defer step.End()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: authv1beta1.NonceSecret}}
	if _, err := c.ensure(ctx, secret, func() error {
		setLabel(secret, authv1beta1.LabelNonce, api.True)
		setLabel(secret, api.LabelRemoteClusterID, consumer)
		return nil
	}); err != nil {
		return nil, err
	}
	err := c.wait(ctx, step, secret, func() verdict {
		if len(secret.Data[authv1beta1.NonceKey]) == 0 {
			return notYet("the controller manager has not written data.%s", authv1beta1.NonceKey)
		}
		return yes()
	}, func() { secret.Data = map[string][]byte{authv1beta1.NonceKey: []byte(plannedMark)} })
	if err != nil {
		return nil, err
	}
	step.Done("Nonce is generated")
	return secret.Data[authv1beta1.NonceKey], nil
}

// sign stores the nonce in the local cluster and waits until the controller manager has signed it with the key of the cluster.
func (h *handshake) sign(ctx context.Context, nonce []byte) ([]byte, error) {
	step := h.local.Start("Signing the nonce")
	defer step.End()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.consumer, Name: authv1beta1.SignedNonceSecret}}
	_, err := h.local.ensure(ctx, secret, func() error {
		setLabel(secret, authv1beta1.LabelSignedNonce, api.True)
		setLabel(secret, api.LabelRemoteClusterID, h.remote.id)
		if !bytes.Equal(secret.Data[authv1beta1.NonceKey], nonce) { // a signature over another nonce is invalid
			secret.Data = map[string][]byte{authv1beta1.NonceKey: nonce}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = h.local.wait(ctx, step, secret, func() verdict {
		if len(secret.Data[authv1beta1.SignedNonceKey]) == 0 {
			return notYet("the controller manager has not written data.%s", authv1beta1.SignedNonceKey)
		}
		return yes()
	}, func() { secret.Data[authv1beta1.SignedNonceKey] = []byte(plannedMark) })
	if err != nil {
		return nil, err
	}
	step.Done("Nonce is signed")
	return secret.Data[authv1beta1.SignedNonceKey], nil
}

// tenant creates or updates the Tenant in the remote cluster, and waits until it is admitted.
func (h *handshake) tenant(ctx context.Context, signature []byte) (*authv1beta1.Tenant, error) {
	step := h.remote.Start("Applying for admission")
	defer step.End()
	publicKey, request, err := h.credentials(ctx)
	if err != nil {
		return nil, h.local.error(err)
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: h.provider, Name: h.local.id}}
	changed, err := h.remote.ensure(ctx, tenant, func() error {
		if tenant.DeletionTimestamp != nil {
			return h.remote.leaving(tenant)
		}
		setLabel(tenant, api.LabelRemoteClusterID, h.local.id)
		tenant.Spec.ClusterID = h.local.id
		tenant.Spec.PublicKey = publicKey
		tenant.Spec.Signature = signature
		// A certificate request for the same key is kept: a new one would make the provider sign again.
		if peering.CheckRequest(tenant.Spec.CSR, peering.ControlPlaneSubject(h.local.id), publicKey) != nil {
			tenant.Spec.CSR = request
		}
		if h.proxyURL != nil {
			tenant.Spec.ProxyURL = h.proxyURL
			if *h.proxyURL == "" {
				tenant.Spec.ProxyURL = nil
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if changed {
		h.remote.Did("Tenant %s correctly ensured", tenant.Name)
	}
	err = h.remote.wait(ctx, step, tenant, func() verdict {
		switch {
		case tenant.Status.AuthParams != nil && tenant.Status.TenantNamespace != "" && current(tenant.Status.Conditions, tenant.Generation):
			return yes()
		default:
			return notYet("its status is not filled%s", reasons(tenant.Status.Conditions))
		}
	}, func() {
		tenant.Status.TenantNamespace, tenant.Status.AuthParams = tenant.Namespace, &authv1beta1.AuthParams{APIServer: h.remote.config.Host}
	})
	if err != nil {
		return nil, err
	}
	step.Done("Tenant status is filled")
	return tenant, nil
}

// credentials returns the public key of the local cluster and a certificate request that is signed with its private key.
func (h *handshake) credentials(ctx context.Context) (publicKey, request []byte, err error) {
	var keys corev1.Secret
	name := client.ObjectKey{Namespace: h.local.namespace, Name: authv1beta1.KeysSecret}
	if err := h.local.Get(ctx, name, &keys); err != nil {
		return nil, nil, fmt.Errorf("reading the keys of the cluster, Secret %s: %w", name, err)
	}
	private, err := peering.ParsePrivateKey(keys.Data[authv1beta1.PrivateKeyKey])
	if err != nil {
		return nil, nil, fmt.Errorf("reading data.%s of Secret %s: %w", authv1beta1.PrivateKeyKey, name, err)
	}
	request, err = peering.NewRequest(rand.Reader, private, peering.ControlPlaneSubject(h.local.id))
	if err != nil {
		return nil, nil, fmt.Errorf("making a certificate request for cluster %s: %w", h.local.id, err)
	}
	return keys.Data[authv1beta1.PublicKeyKey], request, nil
}

// identity stores the granted credentials in an Identity in the local cluster, and waits until its kubeconfig exists.
func (h *handshake) identity(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if err := h.local.replaceWish(ctx, h.remote.id, corev1beta1.PeeringNo, corev1beta1.PeeringAuto); err != nil {
		return err
	}
	step := h.local.Start("Storing the identity")
	defer step.End()
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: h.consumer, Name: authv1beta1.IdentityControlPlanePrefix + h.remote.id}}
	changed, err := h.local.ensure(ctx, identity, func() error {
		if identity.DeletionTimestamp != nil {
			return h.local.leaving(identity)
		}
		setLabel(identity, api.LabelRemoteClusterID, h.remote.id)
		identity.Spec.ClusterID = h.remote.id
		identity.Spec.Type = authv1beta1.IdentityControlPlane
		identity.Spec.Namespace = tenant.Status.TenantNamespace
		granted := *tenant.Status.AuthParams.DeepCopy()
		// The older certificate must not replace a renewed one.
		if peering.Fresher(identity.Spec.AuthParams.SignedCRT, granted.SignedCRT) {
			granted.SignedCRT = identity.Spec.AuthParams.SignedCRT
		}
		identity.Spec.AuthParams = granted
		return nil
	})
	if err != nil {
		return err
	}
	if changed {
		h.local.Did("Identity %s correctly ensured", identity.Name)
	}
	err = h.local.wait(ctx, step, identity, func() verdict {
		if identity.Status.KubeconfigSecretRef == nil {
			return notYet("its status names no kubeconfig%s", reasons(identity.Status.Conditions))
		}
		return yes()
	})
	if err != nil {
		return err
	}
	step.Done("Identity status is filled")
	return nil
}
