package api

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ephemeral reports whether a claim looks as Kubernetes creates it for a generic ephemeral volume of a pod (KEP-1698): the pod is its controller and waits for its
// deletion, and the name of the claim is POD-VOLUME. Programs that give a pod claims of other pods create claims that differ in one of these. Only the pod itself
// shows whether it has such a volume: see EphemeralOf.
func Ephemeral(claim *corev1.PersistentVolumeClaim) bool {
	owner := metav1.GetControllerOf(claim)
	if owner == nil || owner.APIVersion != "v1" || owner.Kind != "Pod" || owner.BlockOwnerDeletion == nil || !*owner.BlockOwnerDeletion {
		return false
	}
	volume, named := strings.CutPrefix(claim.Name, owner.Name+"-")
	return named && volume != ""
}

// EphemeralOf reports whether a claim was created for a generic ephemeral volume of the pod.
func EphemeralOf(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) bool {
	if owner := metav1.GetControllerOf(claim); owner == nil || owner.UID != pod.UID {
		return false
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Ephemeral != nil && pod.Name+"-"+v.Name == claim.Name {
			return true
		}
	}
	return false
}
