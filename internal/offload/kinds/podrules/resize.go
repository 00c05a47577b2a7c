package podrules

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// PartResources is the Field of the SpecPart for the resources of containers.
const PartResources = "resources"

// resizeRefused is the prefix of a condition's message if the provider's API server refused the change that this virtual node requested.
const resizeRefused = "the provider refused the change of resources: "

// ResizeRefused returns the condition, as a kubelet would report it, of a Pod whose change of resources was refused. The condition shows that the pod
// does not have the resources in its specification. The reason is PodReasonInfeasible, or PodReasonDeferred if the change may be accepted later.
func ResizeRefused(reason, message string) corev1.PodCondition {
	return corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason, Message: message}
}

// withResize adds the PodResizePending condition to want, for a change of resources that never reached the remote Pod's kubelet. There are two
// sources. Either the provider's controller reports the condition in the ShadowPod. Or the provider's API server refused to change the ShadowPod, in
// this reconciliation (refusal) or earlier, and the change is still pending.
func withResize(want, local *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, refusal string) {
	if shadow == nil || api.PodFinished(want) || condition(want, corev1.PodResizePending) != nil {
		return
	}
	if reported := shadow.Status.Pod; reported != nil {
		for _, c := range reported.Conditions {
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
