package sharing

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// endTaints are the keys of taints that announce the shutdown or the deletion of a node. A key that ends with a slash is a prefix. All other taints
// are ignored: they restrict which pods may run on a node, and may stay for the node's lifetime.
var endTaints = []string{
	"aws-node-termination-handler/",               // spot interruptions, maintenance, scale-in and rebalancing, by the AWS Node Termination Handler
	"cloud.google.com/impending-node-termination", // spot and preemptible nodes of GKE, and maintenance
	"karpenter.sh/disrupted",
	"karpenter.sh/disruption", // Karpenter before v1.1
	"ToBeDeletedByClusterAutoscaler",
	corev1.TaintNodeOutOfService,
	"node.cloudprovider.kubernetes.io/shutdown",
}

// interruptedOf returns the nodes that are about to be shut down or do not work, the first MaxInterruptedNodes by name.
func interruptedOf(nodes []corev1.Node) []authv1beta1.InterruptedNode {
	var all []authv1beta1.InterruptedNode
	for i := range nodes {
		if cause := interruption(&nodes[i]); cause != "" {
			all = append(all, authv1beta1.InterruptedNode{Name: nodes[i].Name, Cause: cause})
		}
	}
	slices.SortFunc(all, func(a, b authv1beta1.InterruptedNode) int { return strings.Compare(a.Name, b.Name) })
	return all[:min(len(all), authv1beta1.MaxInterruptedNodes)]
}

// interruption returns why a node is about to be shut down or does not work; empty for other nodes and for virtual nodes. A taint of endTaints takes
// precedence over other signs, because a node with such a taint is also cordoned and becomes not ready.
func interruption(node *corev1.Node) string {
	if node.Labels[api.LabelType] == api.TypeVirtualNode {
		return ""
	}
	for _, taint := range node.Spec.Taints {
		if slices.ContainsFunc(endTaints, func(key string) bool {
			return taint.Key == key || strings.HasSuffix(key, "/") && strings.HasPrefix(taint.Key, key)
		}) {
			return "taint " + taint.Key
		}
	}
	switch ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}); {
	case !node.DeletionTimestamp.IsZero():
		return "is being deleted"
	case !ready:
		return "is not ready"
	case node.Spec.Unschedulable:
		return "is cordoned"
	}
	return ""
}
