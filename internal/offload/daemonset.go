package offload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
)

// AnnotationRunOnVirtualNodes ("true"), on a pod or on the pod template of a DaemonSet, lets pods run on virtual nodes that tolerate them by the way only.
const AnnotationRunOnVirtualNodes = "liqo.io/run-on-virtual-nodes"

// virtualNodeTaint is what keeps pods off virtual nodes.
var virtualNodeTaint = corev1.Taint{Key: api.TaintVirtualNode, Value: api.True, Effect: corev1.TaintEffectNoExecute}

// KeepOffVirtualNodes restricts a DaemonSet to real nodes that would have a pod on virtual ones, and tells whether it changed anything. Those that
// tolerate whatever there is are there for the nodes themselves: for their network, disks and logs, of which a virtual one has none. One that asks
// for virtual nodes, by annotation, selector or runtime class, keeps them.
func KeepOffVirtualNodes(set *appsv1.DaemonSet, runtimeClass string) bool {
	template := &set.Spec.Template
	pod := corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	tolerated := slices.ContainsFunc(template.Spec.Tolerations, func(t corev1.Toleration) bool { return tolerates(&t, &virtualNodeTaint) })
	if !tolerated || asksForVirtualNodes(&pod, runtimeClass) || !restrict(&pod, []corev1.NodeSelectorTerm{onType(corev1.NodeSelectorOpNotIn)}) {
		return false
	}
	template.Spec.Affinity = pod.Spec.Affinity
	return true
}

// KeepHome restricts a new pod, whose namespace lets none of them leave, to real nodes if it tolerates whatever there is, and tells whether it changed
// anything. Those are what a cluster needs to work at all, like its DNS, and would wait on a virtual node for ever. One that tolerates virtual nodes by
// their name asks for them, as with an annotation, selector or runtime class.
func KeepHome(pod *corev1.Pod, runtimeClass string) bool {
	tolerated := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "" && tolerates(&t, &virtualNodeTaint) })
	named := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key != "" && tolerates(&t, &virtualNodeTaint) })
	if !tolerated || named || pod.Spec.NodeName != "" || asksForVirtualNodes(pod, runtimeClass) {
		return false
	}
	return restrict(pod, []corev1.NodeSelectorTerm{onType(corev1.NodeSelectorOpNotIn)})
}

func asksForVirtualNodes(pod *corev1.Pod, runtimeClass string) bool {
	return pod.Annotations[AnnotationRunOnVirtualNodes] == api.True || pod.Spec.NodeSelector[api.LabelType] == api.TypeVirtualNode || ofClass(pod, runtimeClass)
}

// ofClass tells whether a pod is of the RuntimeClass that Kubernetes itself sends to virtual nodes.
func ofClass(pod *corev1.Pod, runtimeClass string) bool {
	return runtimeClass != "" && pod.Spec.RuntimeClassName != nil && *pod.Spec.RuntimeClassName == runtimeClass
}
