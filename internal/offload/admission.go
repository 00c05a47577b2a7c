package offload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// MutatePod changes a new pod of an offloaded namespace so that the scheduler follows the namespace's strategy, and reports whether it changed
// anything. It does not change pods of Liqo's RuntimeClass, since Kubernetes itself schedules them to virtual nodes.
//
// MutatePod is idempotent, since an admission chain may call it again.
func MutatePod(pod *corev1.Pod, spec *offloadingv1beta1.NamespaceOffloadingSpec, runtimeClass string) bool {
	if spec.PodOffloadingStrategy == offloadingv1beta1.PodsLocal {
		return KeepLocal(pod, runtimeClass)
	}
	if ofClass(pod, runtimeClass) {
		return false
	}
	changed := tolerateVirtualNodes(pod)
	var terms []corev1.NodeSelectorTerm
	if spec.ClusterSelector != nil {
		terms = spec.ClusterSelector.NodeSelectorTerms
	}
	switch {
	case spec.PodOffloadingStrategy == offloadingv1beta1.PodsRemote:
		return restrict(pod, intersection([]corev1.NodeSelectorTerm{OnType(corev1.NodeSelectorOpIn)}, terms)) || changed
	case len(terms) > 0:
		return restrict(pod, append(slices.Clone(terms), OnType(corev1.NodeSelectorOpNotIn))) || changed
	default:
		return changed
	}
}

// PodsBeforeStrategy returns the sorted names of the pods that do not follow the strategy of their offloaded namespace, because they were created
// before it was set. Such pods stay where they are. The result leaves out pods of DaemonSets, finished pods and pods that are being deleted.
func PodsBeforeStrategy(pods []corev1.Pod, spec *offloadingv1beta1.NamespaceOffloadingSpec, runtimeClass string) []string {
	var names []string
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp.IsZero() && !api.PodFinished(pod) && !ofDaemonSet(pod) && MutatePod(pod.DeepCopy(), spec, runtimeClass) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

func tolerateVirtualNodes(pod *corev1.Pod) bool {
	toleration := corev1.Toleration{
		Key: api.TaintVirtualNode, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
	}
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		// Ignore tolerations with a time limit: when the time has passed, the pod would be evicted from the virtual node.
		if t.TolerationSeconds == nil && tolerates(t, &virtualNodeTaint) {
			return false
		}
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
	return true
}

func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if (t.Effect != "" && t.Effect != taint.Effect) || (t.Key != "" && t.Key != taint.Key) {
		return false
	}
	return t.Operator == corev1.TolerationOpExists || (t.Key != "" && t.Value == taint.Value)
}

// OnType returns a term that matches virtual nodes (operator In), or all other nodes (operator NotIn).
func OnType(operator corev1.NodeSelectorOperator) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: api.LabelType, Operator: operator, Values: []string{api.TypeVirtualNode}},
	}}
}

// restrict changes the required node affinity of the pod so that a node must also match one of the terms. It reports whether it changed the pod.
func restrict(pod *corev1.Pod, terms []corev1.NodeSelectorTerm) bool {
	var own []corev1.NodeSelectorTerm
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		own = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	if len(own) > 0 && slices.IndexFunc(own, func(t corev1.NodeSelectorTerm) bool { return !narrowed(t, terms) }) < 0 {
		return false
	}
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: intersection(own, terms),
	}
	return true
}

// narrowed reports whether t already includes all requirements of one of the terms.
func narrowed(t corev1.NodeSelectorTerm, terms []corev1.NodeSelectorTerm) bool {
	return slices.ContainsFunc(terms, func(with corev1.NodeSelectorTerm) bool {
		return includes(t.MatchExpressions, with.MatchExpressions) && includes(t.MatchFields, with.MatchFields)
	})
}

func includes(all, some []corev1.NodeSelectorRequirement) bool {
	for _, r := range some {
		if !slices.ContainsFunc(all, func(o corev1.NodeSelectorRequirement) bool {
			return o.Key == r.Key && o.Operator == r.Operator && slices.Equal(o.Values, r.Values)
		}) {
			return false
		}
	}
	return true
}

// intersection returns terms that match a node if it matches one term of a and one of b. An empty list matches every node.
func intersection(a, b []corev1.NodeSelectorTerm) []corev1.NodeSelectorTerm {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	var product []corev1.NodeSelectorTerm
	for _, x := range a {
		for _, y := range b {
			product = append(product, corev1.NodeSelectorTerm{
				MatchExpressions: slices.Concat(x.MatchExpressions, y.MatchExpressions),
				MatchFields:      slices.Concat(x.MatchFields, y.MatchFields),
			})
		}
	}
	return product
}
