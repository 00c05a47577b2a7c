package offload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/internal/reasons"
)

// Gates returns the conditions for the Pod's readiness gates that the ShadowPod reports and that the Pod lacks, or has with another status.
func Gates(sp *offloadingv1beta1.ShadowPod, pod *corev1.Pod) []corev1.PodCondition {
	reported := podrules.ParseGates(sp.Annotations[podrules.AnnotationGates])
	var out []corev1.PodCondition
	for _, gate := range sp.Spec.Pod.ReadinessGates {
		status, found := reported[gate.ConditionType]
		there := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == status
		})
		if found && !there {
			out = append(out, corev1.PodCondition{Type: gate.ConditionType, Status: status, Reason: reasons.ReportedByConsumer})
		}
	}
	return out
}
