package reflection

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// PersistentVolumeClaimKind is the Kind.Name of PersistentVolumeClaims.
const PersistentVolumeClaimKind = "PersistentVolumeClaim"

// PersistentVolumeClaims returns the Kind for the claims of offloaded namespaces, and for the claims of the same names that this consumer created in
// the provider. next decides about a claim; package storage contains these decisions.
func PersistentVolumeClaims(workers int, o kinds.CopyOptions, next func(Facts) offload.Step) Kind {
	return copies(PersistentVolumeClaimKind, workers, o, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}, next)
}
