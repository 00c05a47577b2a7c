package offload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
)

// AnnotationRunOnVirtualNodes ("true"), on a pod or on the pod template of a DaemonSet, requests virtual nodes. KeepOffVirtualNodes and KeepLocal do
// not restrict pods with this annotation. The pods run on virtual nodes if they also tolerate the taint of virtual nodes.
const AnnotationRunOnVirtualNodes = "liqo.io/run-on-virtual-nodes"

// virtualNodeTaint is the taint that keeps pods off virtual nodes.
var virtualNodeTaint = corev1.Taint{Key: api.TaintVirtualNode, Value: api.True, Effect: corev1.TaintEffectNoExecute}

// KeepOffVirtualNodes restricts a DaemonSet to real nodes if its pods tolerate the taint of virtual nodes, and reports whether it changed anything.
// Such DaemonSets usually tolerate every taint because they serve the nodes themselves: their network, disks and logs. A virtual node has none of
// these. A DaemonSet that asks for virtual nodes by annotation, node selector or runtime class is not restricted.
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

// KeepLocal keeps a new pod on real nodes of this cluster, and reports whether it changed anything. It is for pods of namespaces that do not offload
// pods, and restricts those that tolerate every taint. They are critical components of a cluster, like DNS, and would stay pending on a virtual node
// forever.
//
// A pod that asks for virtual nodes is not restricted. It asks by a toleration with the key of their taint, or by annotation, node selector or
// runtime class.
func KeepLocal(pod *corev1.Pod, runtimeClass string) bool {
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

// ofClass reports whether a pod has the RuntimeClass that makes Kubernetes itself schedule it to virtual nodes.
func ofClass(pod *corev1.Pod, runtimeClass string) bool {
	return runtimeClass != "" && pod.Spec.RuntimeClassName != nil && *pod.Spec.RuntimeClassName == runtimeClass
}
