package kinds

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
)

// StorageClass is Liqo's storage class, which provisions volumes in the cluster of their pods. It has no meaning in the provider.
const StorageClass = "liqo"

// ephemeral adapts the claim template of a generic ephemeral volume to the provider. Its annotation may name the storage class. Otherwise the template's
// own class stays, except for Liqo's class: the provider's offered class replaces it, or the provider's own default if offered is empty.
func ephemeral(v *corev1.Volume, offered string) {
	if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
		return
	}
	claim := v.Ephemeral.VolumeClaimTemplate
	class := claim.Annotations[api.AnnotationRemoteStorageClass]
	if named := claim.Spec.StorageClassName; class == "" && named != nil && *named == StorageClass {
		if claim.Spec.StorageClassName = nil; offered != "" {
			class = offered
		}
	}
	if class != "" {
		claim.Spec.StorageClassName = &class
	}
	if modes := commaList(claim.Annotations[api.AnnotationRemoteAccessModes]); len(modes) > 0 {
		claim.Spec.AccessModes = nil
		for _, mode := range modes {
			claim.Spec.AccessModes = append(claim.Spec.AccessModes, corev1.PersistentVolumeAccessMode(mode))
		}
	}
	claim.Spec.VolumeName = "" // it would refer to a volume of this cluster
}
