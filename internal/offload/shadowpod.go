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
	// PodRelabel gives it the labels and annotations of the ShadowPod.
	PodRelabel
	// PodDelete removes a Pod that an earlier ShadowPod of that name left.
	PodDelete
)

// Shadow decides what a provider does for a ShadowPod whose Pod is pod (nil when there is none), and the phase that its status then has.
//
// The Pod is made again whenever it is gone, until it once finished: Succeeded and Failed are final. What a Pod says
// while it is being deleted is taken over only if its restart policy makes it conclusive: else it did not end by itself. Pending and Unknown are not
// reported: nobody acts on them, and they would cost a write per pod.
//
// pod must be one that carries the label of ShadowPods, with only those labels and annotations that were set from ShadowPods.
func Shadow(sp *offloadingv1beta1.ShadowPod, pod *corev1.Pod) (PodAction, corev1.PodPhase) {
	phase := sp.Status.Phase
	switch {
	case !sp.DeletionTimestamp.IsZero(), Finished(phase):
		return PodKeep, phase
	case pod == nil:
		return PodCreate, phase
	case !OwnedBy(pod, sp):
		if ofShadowPod(pod) && pod.DeletionTimestamp.IsZero() {
			return PodDelete, phase
		}
		return PodKeep, phase
	case !pod.DeletionTimestamp.IsZero():
		if kinds.Conclusive(pod.Status.Phase, pod.Spec.RestartPolicy) {
			phase = pod.Status.Phase
		}
		return PodKeep, phase
	}
	if Finished(pod.Status.Phase) || pod.Status.Phase == corev1.PodRunning {
		phase = pod.Status.Phase
	}
	if !maps.Equal(pod.Labels, podLabels(sp)) || !maps.Equal(pod.Annotations, sp.Annotations) {
		return PodRelabel, phase
	}
	return PodKeep, phase
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

// ofShadowPod tells whether some ShadowPod made the Pod: the label alone anybody can put on anything.
func ofShadowPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != shadowPodKind {
		return false
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version.Group == offloadingv1beta1.GroupVersion.Group
}

// Pod returns the Pod that a ShadowPod keeps present.
func Pod(sp *offloadingv1beta1.ShadowPod) *corev1.Pod {
	gvk := offloadingv1beta1.GroupVersion.WithKind(shadowPodKind)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: sp.Namespace, Name: sp.Name,
			Labels: podLabels(sp), Annotations: maps.Clone(sp.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(sp, gvk)},
		},
		Spec: *sp.Spec.Pod.DeepCopy(),
	}
}

func podLabels(sp *offloadingv1beta1.ShadowPod) map[string]string {
	labels := make(map[string]string, len(sp.Labels)+1)
	maps.Copy(labels, sp.Labels)
	labels[offloadingv1beta1.LabelManagedBy] = offloadingv1beta1.ManagedByShadowPod
	return labels
}
