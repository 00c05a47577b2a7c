package kinds

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	offv1 "liqo.io/liqo/api/offloading/v1beta1"
)

// PartResources is the Field of the SpecPart with the resources of containers.
const PartResources = "resources"

// resizeRefused begins the message of a condition that reports a refusal of the provider's API server to this virtual node.
const resizeRefused = "the provider refused the change of resources: "

// ResizeRefused is the condition of a Pod whose change of resources is refused, as a kubelet would report it: programs must not count what the specification
// asks for. The reason is PodReasonInfeasible, or PodReasonDeferred where it may be accepted later.
func ResizeRefused(reason, message string) corev1.PodCondition {
	return corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason, Message: message}
}

// withResize adds to want, which shows the remote Pod, the condition of a change of resources that never reached that Pod's kubelet: the provider's
// controller reports it in the ShadowPod, or its API server refused the ShadowPod, just now (refusal) or before, and the change is still due.
func withResize(want, local *corev1.Pod, shadow *offv1.ShadowPod, refusal string) {
	if shadow == nil || Finished(want) || condition(want, corev1.PodResizePending) != nil {
		return
	}
	if told := shadow.Status.Pod; told != nil {
		for _, c := range told.Conditions {
			if c.Type == corev1.PodResizePending {
				c.ObservedGeneration = 0
				want.Status.Conditions = append(want.Status.Conditions, c)
				return
			}
		}
	}
	due := false
	for _, part := range SpecParts(&local.Spec) {
		due = due || part.Field == PartResources && Noted(shadow.Annotations[AnnotationSpec], part.Field) != part.hash()
	}
	shown := condition(local, corev1.PodResizePending)
	switch {
	case !due:
	case refusal != "":
		want.Status.Conditions = append(want.Status.Conditions, ResizeRefused(corev1.PodReasonInfeasible, resizeRefused+refusal))
	case shown != nil && strings.HasPrefix(shown.Message, resizeRefused):
		want.Status.Conditions = append(want.Status.Conditions, *shown)
	}
}
