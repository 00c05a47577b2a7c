package controllers

import (
	"context"
	"crypto"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/peering"
)

// Secrets are cached by label and in all namespaces, because the tenant namespaces are not known in advance.
// +kubebuilder:rbac:groups=core,resources=secrets,verbs=get;list;watch;create;patch

// keys manages the key pair of this cluster. It reads the key pair from the API server each time it is needed, which is rarely, so that no
// cache holds a private key.
type keys struct {
	client    client.Client
	reader    client.Reader
	namespace string
	algorithm peering.Algorithm
	random    io.Reader
}

// pair is the key pair of this cluster.
type pair struct {
	signer                crypto.Signer
	privatePEM, publicPEM []byte
}

// Start generates the key pair if there is none.
func (k *keys) Start(ctx context.Context) error {
	_, err := k.get(ctx)
	return err
}

// get reads the key pair, and generates it if there is none.
func (k *keys) get(ctx context.Context) (pair, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: k.namespace, Name: authv1beta1.KeysSecret}
	err := k.reader.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		if secret, err = k.create(ctx); apierrors.IsAlreadyExists(err) {
			secret = &corev1.Secret{} // another replica was first
			err = k.reader.Get(ctx, key, secret)
		}
	}
	if err != nil {
		return pair{}, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	signer, err := peering.ParsePrivateKey(secret.Data[authv1beta1.PrivateKeyKey])
	if err != nil {
		return pair{}, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	public, err := peering.PublicKey(signer)
	if err != nil {
		return pair{}, err
	}
	return pair{signer: signer, privatePEM: secret.Data[authv1beta1.PrivateKeyKey], publicPEM: public}, nil
}

func (k *keys) create(ctx context.Context) (*corev1.Secret, error) {
	private, public, err := peering.NewKey(k.algorithm, k.random)
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: authv1beta1.KeysSecret},
		Data:       map[string][]byte{authv1beta1.PrivateKeyKey: private, authv1beta1.PublicKeyKey: public},
	}
	return secret, k.client.Create(ctx, secret)
}
