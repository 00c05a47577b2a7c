package kinds

import corev1 "k8s.io/api/core/v1"

// Annotations by which a PersistentVolumeClaim, or a Pod's template for one, configures the claim in the provider.
const (
	// AnnotationRemoteStorageClass names the storage class in the provider.
	AnnotationRemoteStorageClass = "liqo.io/remote-storage-class"
	// AnnotationRemoteAccessModes lists the access modes in the provider, separated by commas.
	AnnotationRemoteAccessModes = "liqo.io/remote-access-modes"
	// StorageClass is Liqo's storage class, which provisions volumes in the cluster of their pods. It has no meaning in the provider.
	StorageClass = "liqo"
)

// ephemeral adapts the claim template of a generic ephemeral volume to the provider. Its annotation may name the storage class. Otherwise the template's
// own class stays, except for Liqo's class: the provider's offered class replaces it, or the provider's own default if offered is empty.
func ephemeral(v *corev1.Volume, offered string) {
	if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
		return
	}
	claim := v.Ephemeral.VolumeClaimTemplate
	class := claim.Annotations[AnnotationRemoteStorageClass]
	if named := claim.Spec.StorageClassName; class == "" && named != nil && *named == StorageClass {
		if claim.Spec.StorageClassName = nil; offered != "" {
			class = offered
		}
	}
	if class != "" {
		claim.Spec.StorageClassName = &class
	}
	if modes := commaList(claim.Annotations[AnnotationRemoteAccessModes]); len(modes) > 0 {
		claim.Spec.AccessModes = nil
		for _, mode := range modes {
			claim.Spec.AccessModes = append(claim.Spec.AccessModes, corev1.PersistentVolumeAccessMode(mode))
		}
	}
	claim.Spec.VolumeName = "" // it would refer to a volume of this cluster
}
