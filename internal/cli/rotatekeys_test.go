package cli

import (
	"bytes"
	"crypto/ecdh"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// rotateKeys: new keys.
func (n networks) rotateKeys() {
	t := n.T
	before := n.rome.keys[len(n.rome.keys)-1]
	n.must(n.both("network rotate-keys --timeout 30s"))
	after := n.rome.keys[len(n.rome.keys)-1]
	if bytes.Equal(before, after) {
		t.Error("the key is the old one")
	}
	if told := n.rome.told[len(n.rome.told)-1]; !told {
		t.Error("the key was used before milan knew it: the tunnel was interrupted")
	}
	var secret corev1.Secret
	if err := n.rome.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "gw-milan"}, &secret); err != nil {
		t.Fatal(err)
	}
	private, err := ecdh.X25519().NewPrivateKey(secret.Data[networkingv1beta1.SecretPrivateKey])
	if err != nil || !bytes.Equal(private.PublicKey().Bytes(), secret.Data[networkingv1beta1.SecretPublicKey]) {
		t.Errorf("the keys are no pair: %v", err)
	}
	n.same("with new keys")
}
