package reflection

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/offload/kinds"
)

// SecretKind is the Kind.Name of Secrets.
const SecretKind = "Secret"

// Secrets returns the Kind that reflects the Secrets of offloaded namespaces.
func Secrets(workers int, options func() kinds.CopyOptions) Kind {
	return plain(SecretKind, workers, &corev1.Secret{}, options, func(local *corev1.Secret, namespace string) (*corev1.Secret, string) {
		return kinds.Secret(local, namespace, options())
	}, kinds.MergeSecret, nil)
}
