package kube

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
)

// HeldClaims returns the claims whose data is to be kept. It leaves out claims that are being deleted, and claims of ephemeral volumes, which end with their pods.
func HeldClaims(claims []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	var out []corev1.PersistentVolumeClaim
	for i := range claims {
		if claims[i].DeletionTimestamp.IsZero() && !api.Ephemeral(&claims[i]) {
			out = append(out, claims[i])
		}
	}
	return out
}
