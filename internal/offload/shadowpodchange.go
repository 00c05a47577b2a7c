package offload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
)

// Gates returns the conditions that a Pod is to get because its ShadowPod tells them: for readiness gates of its own, and no others.
func Gates(sp *offloadingv1beta1.ShadowPod, pod *corev1.Pod) []corev1.PodCondition {
	told := kinds.ParseGates(sp.Annotations[kinds.AnnotationGates])
	var out []corev1.PodCondition
	for _, gate := range sp.Spec.Pod.ReadinessGates {
		status, found := told[gate.ConditionType]
		there := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == status
		})
		if found && !there {
			out = append(out, corev1.PodCondition{Type: gate.ConditionType, Status: status, Reason: reasonConsumer})
		}
	}
	return out
}

// reasonConsumer is why a readiness gate is open or closed: the consumer says so.
const reasonConsumer = "ReportedByConsumer"
