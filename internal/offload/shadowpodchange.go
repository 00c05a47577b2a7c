package offload

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
)

// PodChanges are what becomes of a Pod whose ShadowPod changed, one for each way in which the API server lets it change; nil where nothing
// does. They are written one after the other, and none waits for one that is refused.
type PodChanges struct {
	// Spec has other images, or another deadline.
	Spec *corev1.Pod
	// Resize has other resources.
	Resize *corev1.Pod
	// Debug are further ephemeral containers.
	Debug []corev1.EphemeralContainer
}

// Changes compares a ShadowPod with its Pod, read whole. What the provider's own admission set in the Pod beside, stays.
func Changes(sp *offloadingv1beta1.ShadowPod, pod *corev1.Pod) PodChanges {
	want := sp.Spec.Pod.DeepCopy()
	spec, resize := pod.DeepCopy(), pod.DeepCopy()
	var debug []corev1.EphemeralContainer
	spec.Spec.ActiveDeadlineSeconds = want.ActiveDeadlineSeconds
	each := func(of func(*corev1.PodSpec) []corev1.Container, change func(c, want *corev1.Container), in *corev1.Pod) {
		list := of(&in.Spec)
		for i := range list {
			if j := slices.IndexFunc(of(want), func(c corev1.Container) bool { return c.Name == list[i].Name }); j >= 0 {
				change(&list[i], &of(want)[j])
			}
		}
	}
	for _, of := range []func(*corev1.PodSpec) []corev1.Container{
		func(s *corev1.PodSpec) []corev1.Container { return s.InitContainers }, func(s *corev1.PodSpec) []corev1.Container { return s.Containers },
	} {
		each(of, func(c, want *corev1.Container) { c.Image = want.Image }, spec)
		each(of, func(c, want *corev1.Container) {
			overlay(&c.Resources.Requests, want.Resources.Requests)
			overlay(&c.Resources.Limits, want.Resources.Limits)
		}, resize)
	}
	for i := range want.EphemeralContainers {
		if !slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == want.EphemeralContainers[i].Name }) {
			debug = append(debug, want.EphemeralContainers[i])
		}
	}
	different := func(p *corev1.Pod) *corev1.Pod {
		if equality.Semantic.DeepEqual(p.Spec, pod.Spec) {
			return nil
		}
		return p
	}
	return PodChanges{Spec: different(spec), Resize: different(resize), Debug: debug}
}

// overlay sets the amounts in have that want names.
func overlay(have *corev1.ResourceList, want corev1.ResourceList) {
	if *have == nil && len(want) > 0 {
		*have = corev1.ResourceList{}
	}
	maps.Copy(*have, want)
}

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
