package kinds

import corev1 "k8s.io/api/core/v1"

// Annotations with which a PersistentVolumeClaim, or the template of one in a Pod, tunes its twin.
const (
	// AnnotationRemoteStorageClass names the storage class in the provider.
	AnnotationRemoteStorageClass = "liqo.io/remote-storage-class"
	// AnnotationRemoteAccessModes lists, separated by commas, the access modes in the provider.
	AnnotationRemoteAccessModes = "liqo.io/remote-access-modes"
	// StorageClass makes volumes where their pods are, and means nothing in the provider.
	StorageClass = "liqo"
)

// ephemeral gives the claim that a volume of its Pod's own is made from what it asks of the provider: the class that its annotation names, or
// the one it names itself, or for the class of virtual storage what the provider offers by default (empty: its own default).
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
	claim.Spec.VolumeName = "" // a volume of this cluster
}
