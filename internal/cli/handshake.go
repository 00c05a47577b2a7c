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
	"liqo.io/liqo/internal/cli/preview"
	"liqo.io/liqo/internal/peering"
)

// authenticate introduces the local cluster to the remote one and stores the granted identity locally. Each step reads the current state
// first. An interrupted handshake therefore resumes where it stopped, and a complete one changes nothing.
func (p *pair) authenticate(ctx context.Context, auth *authFlags) error {
	proxyURL, err := p.proxyURL(ctx, auth)
	if err != nil {
		return err
	}
	if err := p.ensureNamespaces(ctx); err != nil {
		return err
	}
	application := &authv1beta1.TenantSpec{}
	nonce := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.there, Name: authv1beta1.NonceSecret}}
	signed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.here, Name: authv1beta1.SignedNonceSecret}}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: p.there, Name: p.local.id}}
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: p.here, Name: authv1beta1.IdentityControlPlanePrefix + p.remote.id}}
	return inOrder(ctx,
		p.remote.to(nonceGoal(nonce, p.local.id)),
		p.local.to(signatureGoal(signed, nonce, p.remote.id)),
		func(ctx context.Context) error { // reads the keys of the cluster, which its controller manager has created before it signed the nonce
			found, err := applicationOf(ctx, p.local)
			if err == nil {
				*application, application.ProxyURL = *found, proxyURL
			}
			return err
		},
		p.remote.to(admissionGoal(tenant, application, signed, p.remote.config.Host)),
		func(ctx context.Context) error {
			return replaceWish(ctx, p.local, p.remote.id, corev1beta1.PeeringNo, corev1beta1.PeeringAuto)
		},
		p.local.to(identityGoal(identity, tenant, p.remote.id)),
	)
}

// nonceGoal requests a nonce that a consumer must sign. The controller manager of the provider generates it.
func nonceGoal(nonce *corev1.Secret, consumer string) *goal {
	return &goal{
		object: nonce, doing: "Requesting a nonce", done: "Nonce is generated",
		fill: func() {
			setLabel(nonce, authv1beta1.LabelNonce, api.True)
			setLabel(nonce, api.LabelRemoteClusterID, consumer)
		},
		met: func() verdict {
			if len(nonce.Data[authv1beta1.NonceKey]) == 0 {
				return notYet("the controller manager has not written data.%s", authv1beta1.NonceKey)
			}
			return yes()
		},
		answer: func() { nonce.Data = map[string][]byte{authv1beta1.NonceKey: []byte(preview.Placeholder)} },
	}
}

// signatureGoal stores the nonce of the provider. The controller manager of the consumer signs it with the key of the cluster.
func signatureGoal(signed, nonce *corev1.Secret, provider string) *goal {
	return &goal{
		object: signed, doing: "Signing the nonce", done: "Nonce is signed",
		fill: func() {
			setLabel(signed, authv1beta1.LabelSignedNonce, api.True)
			setLabel(signed, api.LabelRemoteClusterID, provider)
			wanted := nonce.Data[authv1beta1.NonceKey]
			if !bytes.Equal(signed.Data[authv1beta1.NonceKey], wanted) { // a signature over another nonce is invalid
				signed.Data = map[string][]byte{authv1beta1.NonceKey: wanted}
			}
		},
		met: func() verdict {
			if len(signed.Data[authv1beta1.SignedNonceKey]) == 0 {
				return notYet("the controller manager has not written data.%s", authv1beta1.SignedNonceKey)
			}
			return yes()
		},
		answer: func() { signed.Data[authv1beta1.SignedNonceKey] = []byte(preview.Placeholder) },
	}
}

// applicationOf returns the local cluster's request for admission as a consumer: its public key, and a certificate request that is signed with its
// private key. The signature of the provider's nonce is missing.
func applicationOf(ctx context.Context, c *cluster) (*authv1beta1.TenantSpec, error) {
	var keys corev1.Secret
	name := client.ObjectKey{Namespace: c.namespace, Name: authv1beta1.KeysSecret}
	if err := c.Get(ctx, name, &keys); err != nil {
		return nil, c.error(fmt.Errorf("reading the keys of the cluster, Secret %s: %w", name, err))
	}
	private, err := peering.ParsePrivateKey(keys.Data[authv1beta1.PrivateKeyKey])
	if err != nil {
		return nil, c.error(fmt.Errorf("reading data.%s of Secret %s: %w", authv1beta1.PrivateKeyKey, name, err))
	}
	request, err := peering.NewRequest(rand.Reader, private, peering.ControlPlaneSubject(c.id))
	if err != nil {
		return nil, c.error(fmt.Errorf("creating a certificate request for cluster %s: %w", c.id, err))
	}
	return &authv1beta1.TenantSpec{ClusterID: c.id, PublicKey: keys.Data[authv1beta1.PublicKeyKey], CSR: request}, nil
}

// admissionGoal creates or updates the Tenant of the consumer in the provider, and waits until the provider admits the consumer. In the
// application, a nil ProxyURL keeps the ProxyURL of the Tenant, and an empty one removes it. signed is the Secret with the signature of the
// provider's nonce, and apiServer the URL of the provider's API server that a dry run assumes.
func admissionGoal(tenant *authv1beta1.Tenant, application *authv1beta1.TenantSpec, signed *corev1.Secret, apiServer string) *goal {
	return &goal{
		object: tenant, doing: "Requesting admission", done: "Tenant status is filled",
		made: fmt.Sprintf("Tenant %s correctly ensured", tenant.Name),
		fill: func() {
			setLabel(tenant, api.LabelRemoteClusterID, application.ClusterID)
			tenant.Spec.ClusterID, tenant.Spec.PublicKey = application.ClusterID, application.PublicKey
			tenant.Spec.Signature = signed.Data[authv1beta1.SignedNonceKey]
			// A certificate request for the same key is kept: a new one would make the provider sign again.
			if peering.CheckRequest(tenant.Spec.CSR, peering.ControlPlaneSubject(application.ClusterID), application.PublicKey) != nil {
				tenant.Spec.CSR = application.CSR
			}
			if application.ProxyURL != nil {
				tenant.Spec.ProxyURL = application.ProxyURL
				if *application.ProxyURL == "" {
					tenant.Spec.ProxyURL = nil
				}
			}
		},
		met: func() verdict {
			if tenant.Status.AuthParams == nil || tenant.Status.TenantNamespace == "" || !current(tenant.Status.Conditions, tenant.Generation) {
				return notYet("its status is not filled%s", reasons(tenant.Status.Conditions))
			}
			return yes()
		},
		answer: func() {
			tenant.Status.TenantNamespace, tenant.Status.AuthParams = tenant.Namespace, &authv1beta1.AuthParams{APIServer: apiServer}
		},
	}
}

// identityGoal stores the credentials that the provider granted with the Tenant. The controller manager writes their kubeconfig.
func identityGoal(identity *authv1beta1.Identity, tenant *authv1beta1.Tenant, provider string) *goal {
	return &goal{
		object: identity, doing: "Storing the identity", done: "Identity status is filled",
		made: fmt.Sprintf("Identity %s correctly ensured", identity.Name),
		fill: func() {
			setLabel(identity, api.LabelRemoteClusterID, provider)
			identity.Spec.ClusterID = provider
			identity.Spec.Type = authv1beta1.IdentityControlPlane
			identity.Spec.Namespace = tenant.Status.TenantNamespace
			granted := *tenant.Status.AuthParams.DeepCopy()
			// The Identity may hold a renewed credential, which the older one in the Tenant must not replace. An access key is never renewed, so it
			// is always replaced.
			if identity.Spec.AuthParams.AwsConfig == nil && peering.Newer(&identity.Spec.AuthParams, &granted) {
				peering.Adopt(&granted, &identity.Spec.AuthParams)
			}
			identity.Spec.AuthParams = granted
		},
		met: func() verdict {
			if identity.Status.KubeconfigSecretRef == nil {
				return notYet("its status names no kubeconfig%s", reasons(identity.Status.Conditions))
			}
			return yes()
		},
	}
}
