package offload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
)

// AnnotationDaemonSet ("true"), on the pod template of a DaemonSet, lets its pods run on virtual nodes.
const AnnotationDaemonSet = "liqo.io/run-on-virtual-nodes"

// KeepOffVirtualNodes restricts a DaemonSet to real nodes that would have a pod on virtual ones, and tells whether it changed anything. Those that
// tolerate whatever there is are there for the nodes themselves: for their network, disks and logs, of which a virtual one has none. One that asks
// for virtual nodes, by annotation, selector or runtime class, keeps them.
func KeepOffVirtualNodes(set *appsv1.DaemonSet, runtimeClass string) bool {
	template := &set.Spec.Template
	taint := corev1.Taint{Key: api.TaintVirtualNode, Value: api.True, Effect: corev1.TaintEffectNoExecute}
	tolerated := slices.ContainsFunc(template.Spec.Tolerations, func(t corev1.Toleration) bool { return tolerates(&t, &taint) })
	asked := template.Annotations[AnnotationDaemonSet] == api.True || template.Spec.NodeSelector[api.LabelType] == api.TypeVirtualNode ||
		runtimeClass != "" && template.Spec.RuntimeClassName != nil && *template.Spec.RuntimeClassName == runtimeClass
	if asked || !tolerated {
		return false
	}
	pod := corev1.Pod{Spec: template.Spec}
	if !restrict(&pod, []corev1.NodeSelectorTerm{onType(corev1.NodeSelectorOpNotIn)}) {
		return false
	}
	template.Spec.Affinity = pod.Spec.Affinity
	return true
}
