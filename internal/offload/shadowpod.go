package offload

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

const shadowPodKind = "ShadowPod"

// PodAction is what a provider does about the Pod of a ShadowPod.
type PodAction int

// Pod actions.
const (
	// PodKeep changes nothing.
	PodKeep PodAction = iota
	// PodCreate creates the Pod.
	PodCreate
	// PodRelabel sets the labels and annotations that Relabelled returns.
	PodRelabel
	// PodChange applies the changes of the specification, part by part (podrules.SpecParts), and records them in the Pod's annotation.
	PodChange
	// PodGates sets the conditions for readiness gates that Gates returns.
	PodGates
	// PodEnd deletes the Pod with the grace period that PodGrace returns.
	PodEnd
	// PodDelete deletes a Pod that an earlier ShadowPod of that name left behind.
	PodDelete
)

// PodMetadata is the provider administrator's policy for the annotation and label keys of consumers' Pods. A trailing * matches any suffix.
type PodMetadata struct {
	// Annotations are accepted in addition to those of kinds.AcceptedMetadata.
	Annotations []string
	// Labels are accepted although kinds.RefusedPodLabels lists them; RefusedLabels are refused in addition to that list.
	Labels, RefusedLabels []string
}

// Shadow decides what a provider does for a ShadowPod whose Pod is pod (nil if there is none), and returns the new phase of the ShadowPod's status.
//
// A deleted Pod is recreated, until a Pod has finished: Succeeded and Failed are final. A Pod that is being deleted may report a final phase. That phase counts
// only if the restart policy makes it conclusive (podrules.Conclusive); otherwise the Pod did not end by itself. Only final phases are reported. The Pod itself
// shows the other phases. No controller acts on them, and each would need a write per pod.
//
// If the consumer deletes a Pod with another grace period than the one in its spec, this cluster deletes the Pod before the ShadowPod, since a
// ShadowPod has no grace period. The consumer deletes the ShadowPod once it observes the deletion of the Pod.
//
// pod must carry the label of ShadowPods, and must be stripped of all labels and annotations that were not set from ShadowPods. keys is the policy
// for labels and annotations.
func Shadow(sp *offloadingv1beta1.ShadowPod, pod *corev1.Pod, keys PodMetadata) (PodAction, corev1.PodPhase) {
	phase := sp.Status.Phase
	seconds, ending := PodGrace(sp)
	switch {
	case !sp.DeletionTimestamp.IsZero(), api.PhaseFinal(phase):
		return PodKeep, phase
	case pod == nil && ending:
		return PodKeep, phase
	case pod == nil:
		return PodCreate, phase
	case !OwnedBy(pod, sp):
		if OfShadowPod(pod) && pod.DeletionTimestamp.IsZero() {
			return PodDelete, phase
		}
		return PodKeep, phase
	case ending && (pod.DeletionTimestamp.IsZero() || pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds > seconds):
		return PodEnd, phase
	case !pod.DeletionTimestamp.IsZero():
		if podrules.Conclusive(pod.Status.Phase, pod.Spec.RestartPolicy) {
			phase = pod.Status.Phase
		}
		return PodKeep, phase
	}
	if api.PodFinished(pod) {
		phase = pod.Status.Phase
	}
	labels, annotations := Relabelled(sp, pod, keys)
	switch {
	case !maps.Equal(pod.Labels, labels) || !maps.Equal(pod.Annotations, annotations):
		return PodRelabel, phase
	case len(Gates(sp, pod)) > 0:
		return PodGates, phase
	case pod.Annotations[podrules.AnnotationSpec] != sp.Annotations[podrules.AnnotationSpec]: // last, since the API server may refuse this change forever
		return PodChange, phase
	}
	return PodKeep, phase
}

// longestGrace is the longest grace period of a Pod, in seconds. Policy liqo-shadowpod limits the grace period in the specification as well.
const longestGrace = 24 * 60 * 60

// PodGrace returns the grace period, in seconds, with which the Pod of a ShadowPod must be deleted. It returns false if the Pod must be kept. The
// period is at least 1 s: a forced deletion removes the Pod object at once, and on an unreachable node its containers may run on without being
// counted. It is at most longestGrace, since a longer one would block the deletion of the namespace.
func PodGrace(sp *offloadingv1beta1.ShadowPod) (int64, bool) {
	seconds, ending := podrules.Grace(sp)
	return min(max(seconds, 1), longestGrace), ending
}

// Relabelled returns the labels and annotations that the Pod of a ShadowPod has to have. The hash annotation of the specification stays as it is in
// pod. Only PodChange updates it: the change may be refused, and must not delay the labels. The argument keys is the policy for labels and
// annotations.
func Relabelled(sp *offloadingv1beta1.ShadowPod, pod *corev1.Pod, keys PodMetadata) (labels, annotations map[string]string) {
	annotations = podAnnotations(sp, keys.Annotations)
	if noted := pod.Annotations[podrules.AnnotationSpec]; noted != "" {
		annotations[podrules.AnnotationSpec] = noted
	} else {
		delete(annotations, podrules.AnnotationSpec)
	}
	return podLabels(sp, keys), annotations
}

// OwnedBy reports whether sp, and not another ShadowPod of the same name, controls the Pod.
func OwnedBy(pod *corev1.Pod, sp *offloadingv1beta1.ShadowPod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.UID == sp.UID
}

// OfShadowPod reports whether any ShadowPod controls the Pod. The label does not prove that, since anybody can set it.
func OfShadowPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != shadowPodKind {
		return false
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version.Group == offloadingv1beta1.GroupVersion.Group
}

// Pod returns the Pod for a ShadowPod. keys is the policy for labels and annotations.
func Pod(sp *offloadingv1beta1.ShadowPod, keys PodMetadata) *corev1.Pod {
	gvk := offloadingv1beta1.GroupVersion.WithKind(shadowPodKind)
	spec := *sp.Spec.Pod.DeepCopy()
	spec.EphemeralContainers = nil // a new Pod can't have any, and a recreated one has lost them
	withoutClaimMetadata(&spec)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: sp.Namespace, Name: sp.Name,
			Labels: podLabels(sp, keys), Annotations: podAnnotations(sp, keys.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(sp, gvk)},
		},
		Spec: spec,
	}
}

// withoutClaimMetadata removes the metadata from the claim templates of ephemeral volumes. Kubernetes copies it to the claims, where annotations can
// override the storage class of the spec and choose directories of the provisioner.
func withoutClaimMetadata(spec *corev1.PodSpec) {
	for i := range spec.Volumes {
		if e := spec.Volumes[i].Ephemeral; e != nil && e.VolumeClaimTemplate != nil {
			e.VolumeClaimTemplate.ObjectMeta = metav1.ObjectMeta{}
		}
	}
}

// podAnnotations returns the annotations of a ShadowPod, without those that controllers and runtimes of this cluster could act on.
// AnnotationOffloaded is removed too. It marks Pods that run in another cluster for this cluster's eviction policy, but this Pod runs here.
func podAnnotations(sp *offloadingv1beta1.ShadowPod, accepted []string) map[string]string {
	annotations := map[string]string{}
	maps.Copy(annotations, sp.Annotations)
	delete(annotations, podrules.AnnotationOffloaded)
	kinds.AcceptPodAnnotations(annotations, accepted)
	return annotations
}

// podLabels returns the labels of a ShadowPod, without those that controllers of this cluster could act on, and without those that Kubernetes sets
// when it binds the Pod to a node here.
func podLabels(sp *offloadingv1beta1.ShadowPod, keys PodMetadata) map[string]string {
	labels := make(map[string]string, len(sp.Labels)+1)
	maps.Copy(labels, sp.Labels)
	podrules.WithoutBinding(labels)
	kinds.RefusePodLabels(labels, keys.Labels, keys.RefusedLabels)
	labels[offloadingv1beta1.LabelManagedBy] = offloadingv1beta1.ManagedByShadowPod
	return labels
}
