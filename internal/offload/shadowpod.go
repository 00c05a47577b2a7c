package offload

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
)

const shadowPodKind = "ShadowPod"

// PodAction is what a provider does about the Pod of a ShadowPod.
type PodAction int

// Pod actions.
const (
	// PodKeep leaves it.
	PodKeep PodAction = iota
	// PodCreate makes it.
	PodCreate
	// PodRelabel gives it the labels and annotations of the ShadowPod, as Relabelled says.
	PodRelabel
	// PodChange gives it what changed of the specification, part by part (kinds.SpecParts), and takes note of that.
	PodChange
	// PodGates sets the conditions for its readiness gates, as Gates says.
	PodGates
	// PodEnd deletes it within the seconds that PodGrace says.
	PodEnd
	// PodDelete removes a Pod that an earlier ShadowPod of that name left.
	PodDelete
)

// PodMetadata is what the administrator of a provider says of the keys of annotations and labels of consumers' Pods; a trailing * matches the rest.
type PodMetadata struct {
	// Annotations are accepted beside those of kinds.AcceptedMetadata.
	Annotations []string
	// Labels are accepted of those of kinds.RefusedPodLabels, RefusedLabels are refused beside them.
	Labels, RefusedLabels []string
}

// Shadow decides what a provider does for a ShadowPod whose Pod is pod (nil when there is none), and the phase that its status then has.
//
// The Pod is made again whenever it is gone, until it once finished: Succeeded and Failed are final. What a Pod says
// while it is being deleted is taken over only if its restart policy makes it conclusive: else it did not end by itself. Only that is reported: the
// Pod of the same name beside it tells the rest, nobody acts on it, and it would cost a write per pod.
//
// A Pod that the consumer wants to end within another time than its own is ended first: the ShadowPod, which has no such time, goes when that is
// seen.
//
// pod must be one that carries the label of ShadowPods, with only those labels and annotations that were set from ShadowPods. keys says which it may have.
func Shadow(sp *offloadingv1beta1.ShadowPod, pod *corev1.Pod, keys PodMetadata) (PodAction, corev1.PodPhase) {
	phase := sp.Status.Phase
	seconds, ending := PodGrace(sp)
	switch {
	case !sp.DeletionTimestamp.IsZero(), Finished(phase):
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
		if kinds.Conclusive(pod.Status.Phase, pod.Spec.RestartPolicy) {
			phase = pod.Status.Phase
		}
		return PodKeep, phase
	}
	if Finished(pod.Status.Phase) {
		phase = pod.Status.Phase
	}
	labels, annotations := Relabelled(sp, pod, keys)
	switch {
	case !maps.Equal(pod.Labels, labels) || !maps.Equal(pod.Annotations, annotations):
		return PodRelabel, phase
	case len(Gates(sp, pod)) > 0:
		return PodGates, phase
	case pod.Annotations[kinds.AnnotationSpec] != sp.Annotations[kinds.AnnotationSpec]: // last: it may be refused for ever
		return PodChange, phase
	}
	return PodKeep, phase
}

// longestGrace is how long a Pod may take to end, in seconds, as its specification is held to by policy liqo-shadowpod-host.
const longestGrace = 24 * 60 * 60

// PodGrace returns within how many seconds the Pod of a ShadowPod is to end, false if it is not to. Not at once, whatever the consumer says: a Pod
// whose end nobody waits for may run on where its node does not answer, and counts for nobody. And not in years, which would hold its namespace.
func PodGrace(sp *offloadingv1beta1.ShadowPod) (int64, bool) {
	seconds, ending := kinds.Grace(sp)
	return min(max(seconds, 1), longestGrace), ending
}

// Relabelled returns the labels and annotations that the Pod of a ShadowPod has. That its specification changed is noted when it has: it may be
// refused, and labels do not wait for it. keys are those of Shadow.
func Relabelled(sp *offloadingv1beta1.ShadowPod, pod *corev1.Pod, keys PodMetadata) (labels, annotations map[string]string) {
	annotations = podAnnotations(sp, keys.Annotations)
	if noted := pod.Annotations[kinds.AnnotationSpec]; noted != "" {
		annotations[kinds.AnnotationSpec] = noted
	} else {
		delete(annotations, kinds.AnnotationSpec)
	}
	return podLabels(sp, keys), annotations
}

// Finished tells whether a phase is final.
func Finished(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// OwnedBy tells whether that very ShadowPod, not another one of its name, made the Pod.
func OwnedBy(pod *corev1.Pod, sp *offloadingv1beta1.ShadowPod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.UID == sp.UID
}

// OfShadowPod tells whether some ShadowPod made the Pod: the label alone anybody can put on anything.
func OfShadowPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != shadowPodKind {
		return false
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version.Group == offloadingv1beta1.GroupVersion.Group
}

// Pod returns the Pod that a ShadowPod keeps present. keys are those of Shadow.
func Pod(sp *offloadingv1beta1.ShadowPod, keys PodMetadata) *corev1.Pod {
	gvk := offloadingv1beta1.GroupVersion.WithKind(shadowPodKind)
	spec := *sp.Spec.Pod.DeepCopy()
	spec.EphemeralContainers = nil // a Pod begins without, and one that is made again has lost them
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: sp.Namespace, Name: sp.Name,
			Labels: podLabels(sp, keys), Annotations: podAnnotations(sp, keys.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(sp, gvk)},
		},
		Spec: spec,
	}
}

// podAnnotations are those of a ShadowPod but for what controllers and runtimes of this cluster could obey, and for the one by which the policy on
// evictions here knows Pods that run elsewhere: this one does not.
func podAnnotations(sp *offloadingv1beta1.ShadowPod, accepted []string) map[string]string {
	annotations := map[string]string{}
	maps.Copy(annotations, sp.Annotations)
	delete(annotations, kinds.AnnotationOffloaded)
	kinds.AcceptPodAnnotations(annotations, accepted)
	return annotations
}

// podLabels are those of a ShadowPod but for what controllers of this cluster could obey, and for those that the binding of the Pod writes here.
func podLabels(sp *offloadingv1beta1.ShadowPod, keys PodMetadata) map[string]string {
	labels := make(map[string]string, len(sp.Labels)+1)
	maps.Copy(labels, sp.Labels)
	kinds.WithoutBinding(labels)
	kinds.RefusePodLabels(labels, keys.Labels, keys.RefusedLabels)
	labels[offloadingv1beta1.LabelManagedBy] = offloadingv1beta1.ManagedByShadowPod
	return labels
}
