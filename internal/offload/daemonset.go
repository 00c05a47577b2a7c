package offload

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	if !tolerated || asksForVirtualNodes(&pod, runtimeClass) || !restrict(&pod, []corev1.NodeSelectorTerm{OnType(corev1.NodeSelectorOpNotIn)}) {
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
	return restrict(pod, []corev1.NodeSelectorTerm{OnType(corev1.NodeSelectorOpNotIn)})
}

// NodeOfDaemonSetPod returns the name of the node for which a pod of a DaemonSet was created. The DaemonSet controller names exactly one in the affinity of each
// pod. A pod that names none or several was created by something else, and NodeOfDaemonSetPod returns no name.
func NodeOfDaemonSetPod(pod *corev1.Pod) string {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	var node string
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key != metav1.ObjectNameField || field.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			if len(field.Values) != 1 || node != "" && node != field.Values[0] {
				return ""
			}
			node = field.Values[0]
		}
	}
	return node
}

// RefuseDaemonSetPod returns why a new pod of a DaemonSet is kept off its node, empty if it is not. Pods of real nodes are never refused. A virtual node only
// gets the pods that ask for virtual nodes. It gets none while it is cordoned, so that kubectl drain ends: DaemonSet controllers replace evicted pods at once,
// on cordoned nodes, too.
func RefuseDaemonSetPod(pod *corev1.Pod, node *corev1.Node, runtimeClass string) string {
	switch {
	case node.Labels[api.LabelType] != api.TypeVirtualNode:
		return ""
	case !asksForVirtualNodes(pod, runtimeClass):
		return fmt.Sprintf("pods of DaemonSets are kept off virtual node %s: exclude label %s=%s in the node affinity of the template (which also happens when it is "+
			"applied again), or annotate the template with %s=%s", node.Name, api.LabelType, api.TypeVirtualNode, AnnotationRunOnVirtualNodes, api.True)
	case node.Spec.Unschedulable:
		return fmt.Sprintf("virtual node %s is cordoned: pods of DaemonSets do not come back to it", node.Name)
	}
	return ""
}

func asksForVirtualNodes(pod *corev1.Pod, runtimeClass string) bool {
	return pod.Annotations[AnnotationRunOnVirtualNodes] == api.True || pod.Spec.NodeSelector[api.LabelType] == api.TypeVirtualNode || ofClass(pod, runtimeClass)
}

// ofClass reports whether a pod has the RuntimeClass that makes Kubernetes itself schedule it to virtual nodes.
func ofClass(pod *corev1.Pod, runtimeClass string) bool {
	return runtimeClass != "" && pod.Spec.RuntimeClassName != nil && *pod.Spec.RuntimeClassName == runtimeClass
}
