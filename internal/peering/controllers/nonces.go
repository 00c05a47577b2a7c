package controllers

import (
	"context"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/reasons"
)

// nonces is the provider's part of the handshake: it generates a nonce for each nonce Secret that has none.
type nonces struct {
	client client.Client
	events events.EventRecorder
	random io.Reader
}

func (n *nonces) setup(mgr ctrl.Manager) error {
	return kube.NewController(mgr, "nonce").
		For(&corev1.Secret{}, matching(labelled(authv1beta1.LabelNonce, api.True))).
		Watches(&corev1.Namespace{}, secretsOf(n.client, authv1beta1.LabelNonce, api.True), onlyTenantNamespaces()).
		Complete(&kube.Reconciler[*corev1.Secret]{
			Name: "nonce", Client: n.client, Sync: n.sync,
			Wanted: func(secret *corev1.Secret) bool { return secret.Labels[authv1beta1.LabelNonce] == api.True },
		})
}

func (n *nonces) sync(ctx context.Context, secret *corev1.Secret) error {
	if len(secret.Data[authv1beta1.NonceKey]) > 0 {
		return nil
	}
	if err := checkNamespace(ctx, n.client, secret); err != nil {
		return err
	}
	nonce, err := peering.NewNonce(n.random)
	if err != nil {
		return err
	}
	changed, err := setKey(ctx, n.client, secret, authv1beta1.NonceKey, nonce)
	if changed {
		announce(n.events, secret, reasons.NonceGenerated, "Generate", "created a nonce for cluster %s", secret.Labels[api.LabelRemoteClusterID])
	}
	return err
}

// signedNonces is the consumer's part of the handshake: it signs the nonces that providers generated.
type signedNonces struct {
	client client.Client
	events events.EventRecorder
	keys   *keys
}

func (n *signedNonces) setup(mgr ctrl.Manager) error {
	return kube.NewController(mgr, "signed-nonce").
		For(&corev1.Secret{}, matching(labelled(authv1beta1.LabelSignedNonce, api.True))).
		Watches(&corev1.Namespace{}, secretsOf(n.client, authv1beta1.LabelSignedNonce, api.True), onlyTenantNamespaces()).
		Complete(&kube.Reconciler[*corev1.Secret]{
			Name: "signed nonce", Client: n.client, Sync: n.sync,
			Wanted: func(secret *corev1.Secret) bool { return secret.Labels[authv1beta1.LabelSignedNonce] == api.True },
		})
}

func (n *signedNonces) sync(ctx context.Context, secret *corev1.Secret) error {
	nonce := secret.Data[authv1beta1.NonceKey]
	if len(nonce) == 0 {
		return nil // the nonce is not written yet
	}
	if err := peering.CheckNonce(nonce); err != nil {
		return kube.Invalid(reasons.InvalidNonce, "Secret %s/%s: %v", secret.Namespace, secret.Name, err)
	}
	if err := checkNamespace(ctx, n.client, secret); err != nil {
		return err
	}
	key, err := n.keys.get(ctx)
	if err != nil {
		return err
	}
	signature, err := peering.SignedNonce(key.signer, key.publicPEM, nonce, secret.Data[authv1beta1.SignedNonceKey])
	if err != nil {
		return err
	}
	changed, err := setKey(ctx, n.client, secret, authv1beta1.SignedNonceKey, signature)
	if changed {
		announce(n.events, secret, reasons.NonceSigned, "Sign", "signed the nonce of cluster %s", secret.Labels[api.LabelRemoteClusterID])
	}
	return err
}

// checkNamespace returns an error for a Secret outside the tenant namespace of the cluster that its label names.
func checkNamespace(ctx context.Context, c client.Client, secret *corev1.Secret) error {
	return inTenantNamespace(ctx, c, secret.Namespace, secret.Labels[api.LabelRemoteClusterID])
}

func setKey(ctx context.Context, c client.Client, secret *corev1.Secret, key string, value []byte) (bool, error) {
	return kube.Ensure(ctx, c, secret, func() error {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = value
		return nil
	})
}
