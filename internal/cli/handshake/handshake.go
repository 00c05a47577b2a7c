// Package handshake has the steps by which a consumer authenticates with a provider and requests resources: nonce, signature, Tenant, Identity, ResourceSlice
// and Node. Commands that peer run all steps. Other commands run or print one of them.
package handshake

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
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// Authenticate introduces the local cluster to the remote one and stores the granted identity locally. Each step reads the current state
// first. An interrupted handshake therefore resumes where it stopped, and a complete one changes nothing.
func Authenticate(ctx context.Context, p *session.Pair, auth *Flags) error {
	proxyURL, err := ProxyURL(ctx, p, auth)
	if err != nil {
		return err
	}
	if err := p.EnsureNamespaces(ctx); err != nil {
		return err
	}
	application := &authv1beta1.TenantSpec{}
	nonce := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.There, Name: authv1beta1.NonceSecret}}
	signed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.Here, Name: authv1beta1.SignedNonceSecret}}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: p.There, Name: p.Local.ID}}
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: p.Here, Name: authv1beta1.IdentityControlPlanePrefix + p.Remote.ID}}
	return session.InOrder(ctx,
		p.Remote.ToReach(NonceGoal(nonce, p.Local.ID)),
		p.Local.ToReach(SignatureGoal(signed, nonce, p.Remote.ID)),
		func(ctx context.Context) error { // reads the keys of the cluster, which its controller manager has created before it signed the nonce
			found, err := ApplicationOf(ctx, p.Local)
			if err == nil {
				*application, application.ProxyURL = *found, proxyURL
			}
			return err
		},
		p.Remote.ToReach(admissionGoal(tenant, application, signed, p.Remote.Config.Host)),
		func(ctx context.Context) error {
			return ReplaceWish(ctx, p.Local, p.Remote.ID, corev1beta1.PeeringNo, corev1beta1.PeeringAuto)
		},
		p.Local.ToReach(identityGoal(identity, tenant, p.Remote.ID)),
	)
}

// NonceGoal requests a nonce that a consumer must sign. The controller manager of the provider generates it.
func NonceGoal(nonce *corev1.Secret, consumer string) *session.Goal {
	return &session.Goal{
		Object: nonce, Doing: "Requesting a nonce", Done: "Nonce is generated",
		Fill: func() {
			kube.AddLabels(nonce, map[string]string{authv1beta1.LabelNonce: api.True, api.LabelRemoteClusterID: consumer})
		},
		Met: func() session.Verdict {
			if len(nonce.Data[authv1beta1.NonceKey]) == 0 {
				return session.NotYet("the controller manager has not written data.%s", authv1beta1.NonceKey)
			}
			return session.Yes()
		},
		Answer: func() { nonce.Data = map[string][]byte{authv1beta1.NonceKey: []byte(preview.Placeholder)} },
	}
}

// SignatureGoal stores the nonce of the provider. The controller manager of the consumer signs it with the key of the cluster.
func SignatureGoal(signed, nonce *corev1.Secret, provider string) *session.Goal {
	return &session.Goal{
		Object: signed, Doing: "Signing the nonce", Done: "Nonce is signed",
		Fill: func() {
			kube.AddLabels(signed, map[string]string{authv1beta1.LabelSignedNonce: api.True, api.LabelRemoteClusterID: provider})
			wanted := nonce.Data[authv1beta1.NonceKey]
			if !bytes.Equal(signed.Data[authv1beta1.NonceKey], wanted) { // a signature over another nonce is invalid
				signed.Data = map[string][]byte{authv1beta1.NonceKey: wanted}
			}
		},
		Met: func() session.Verdict {
			if len(signed.Data[authv1beta1.SignedNonceKey]) == 0 {
				return session.NotYet("the controller manager has not written data.%s", authv1beta1.SignedNonceKey)
			}
			return session.Yes()
		},
		Answer: func() { signed.Data[authv1beta1.SignedNonceKey] = []byte(preview.Placeholder) },
	}
}

// ApplicationOf returns the local cluster's request for admission as a consumer: its public key, and a certificate request that is signed with its
// private key. The signature of the provider's nonce is missing.
func ApplicationOf(ctx context.Context, c *session.Cluster) (*authv1beta1.TenantSpec, error) {
	var keys corev1.Secret
	name := client.ObjectKey{Namespace: c.Namespace, Name: authv1beta1.KeysSecret}
	if err := c.Get(ctx, name, &keys); err != nil {
		return nil, c.Err(fmt.Errorf("reading the keys of the cluster, Secret %s: %w", name, err))
	}
	private, err := peering.ParsePrivateKey(keys.Data[authv1beta1.PrivateKeyKey])
	if err != nil {
		return nil, c.Err(fmt.Errorf("reading data.%s of Secret %s: %w", authv1beta1.PrivateKeyKey, name, err))
	}
	request, err := peering.NewRequest(rand.Reader, private, peering.ControlPlaneSubject(c.ID))
	if err != nil {
		return nil, c.Err(fmt.Errorf("creating a certificate request for cluster %s: %w", c.ID, err))
	}
	return &authv1beta1.TenantSpec{ClusterID: c.ID, PublicKey: keys.Data[authv1beta1.PublicKeyKey], CSR: request}, nil
}

// admissionGoal creates or updates the Tenant of the consumer in the provider, and waits until the provider admits the consumer. In the
// application, a nil ProxyURL keeps the ProxyURL of the Tenant, and an empty one removes it. signed is the Secret with the signature of the
// provider's nonce, and apiServer the URL of the provider's API server that a dry run assumes.
func admissionGoal(tenant *authv1beta1.Tenant, application *authv1beta1.TenantSpec, signed *corev1.Secret, apiServer string) *session.Goal {
	return &session.Goal{
		Object: tenant, Doing: "Requesting admission", Done: "Tenant status is filled",
		Made: fmt.Sprintf("Tenant %s correctly ensured", tenant.Name),
		Fill: func() {
			kube.AddLabels(tenant, map[string]string{api.LabelRemoteClusterID: application.ClusterID})
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
		Met: func() session.Verdict {
			if tenant.Status.AuthParams == nil || tenant.Status.TenantNamespace == "" || !session.Current(tenant.Status.Conditions, tenant.Generation) {
				return session.NotYet("its status is not filled%s", session.Unmet(tenant.Status.Conditions))
			}
			return session.Yes()
		},
		Answer: func() {
			tenant.Status.TenantNamespace, tenant.Status.AuthParams = tenant.Namespace, &authv1beta1.AuthParams{APIServer: apiServer}
		},
	}
}

// identityGoal stores the credentials that the provider granted with the Tenant. The controller manager writes their kubeconfig.
func identityGoal(identity *authv1beta1.Identity, tenant *authv1beta1.Tenant, provider string) *session.Goal {
	return &session.Goal{
		Object: identity, Doing: "Storing the identity", Done: "Identity status is filled",
		Made: fmt.Sprintf("Identity %s correctly ensured", identity.Name),
		Fill: func() {
			kube.AddLabels(identity, map[string]string{api.LabelRemoteClusterID: provider})
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
		Met: func() session.Verdict {
			if identity.Status.KubeconfigSecretRef == nil {
				return session.NotYet("its status names no kubeconfig%s", session.Unmet(identity.Status.Conditions))
			}
			return session.Yes()
		},
	}
}
