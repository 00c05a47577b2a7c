package kinds

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
)

// StorageClass is the default of PodOptions.VirtualStorageClass.
const StorageClass = "liqo"

// ephemeral adapts the claim template of a generic ephemeral volume to the provider. Its annotation may name the storage class. Otherwise the
// template's own class stays, except for Liqo's class, which is left out: the provider gives such a claim its default class.
func ephemeral(v *corev1.Volume, virtualClass string) {
	if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
		return
	}
	claim := v.Ephemeral.VolumeClaimTemplate
	class := claim.Annotations[api.AnnotationRemoteStorageClass]
	if named := claim.Spec.StorageClassName; class == "" && named != nil && *named == cmp.Or(virtualClass, StorageClass) {
		claim.Spec.StorageClassName = nil
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

// remoteClaim makes a volume mount a claim that exists only in the remote namespace. An annotation of the pod names it, as PLACEHOLDER=CLAIM. In this
// cluster, the pod mounts only the placeholder claim, so that it does not delay the deletion of any other claim.
func remoteClaim(v *corev1.Volume, annotation string) {
	placeholder, claim, found := strings.Cut(annotation, "=")
	if found && claim != "" && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == placeholder {
		v.PersistentVolumeClaim.ClaimName = claim
	}
}
