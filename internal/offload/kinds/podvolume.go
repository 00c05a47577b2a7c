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

// keepPaths replaces the namespace in the subPathExpr of volume mounts by the local one. The variable has the name of the remote namespace in the provider, so data
// that was written in one cluster would be in another folder in the other. The variable itself keeps its value, because pods need it to find Services.
func keepPaths(containers []corev1.Container, namespace string) {
	for i := range containers {
		for j := range containers[i].VolumeMounts {
			mount := &containers[i].VolumeMounts[j]
			mount.SubPathExpr = expandNamespace(mount.SubPathExpr, containers[i].Env, namespace)
		}
	}
}

// expandNamespace replaces the references $(NAME) to variables with the namespace of the pod. $$ stays: it is how Kubernetes escapes a dollar sign.
func expandNamespace(expression string, env []corev1.EnvVar, namespace string) string {
	var out strings.Builder
	for rest := expression; rest != ""; {
		name, _, found := strings.Cut(strings.TrimPrefix(rest, "$("), ")")
		switch {
		case strings.HasPrefix(rest, "$$"):
			out.WriteString("$$")
			rest = rest[2:]
		case found && strings.HasPrefix(rest, "$(") && hasNamespace(env, name):
			out.WriteString(namespace)
			rest = rest[len("$()")+len(name):]
		default:
			out.WriteByte(rest[0])
			rest = rest[1:]
		}
	}
	return out.String()
}

// hasNamespace reports whether a variable has the namespace of the pod. Of several with one name, Kubernetes uses the last.
func hasNamespace(env []corev1.EnvVar, name string) (is bool) {
	for i := range env {
		if env[i].Name == name {
			from := env[i].ValueFrom
			is = from != nil && from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.namespace"
		}
	}
	return is
}
