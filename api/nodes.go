package api

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// ReachedNodes returns the nodes whose node ports other clusters may use, sorted by name. It leaves out virtual nodes. It also leaves out nodes that
// are not ready or are being deleted, unless there are no others.
func ReachedNodes(nodes []corev1.Node) []corev1.Node {
	sorted := slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool { return n.Labels[LabelType] == TypeVirtualNode })
	usable := slices.DeleteFunc(slices.Clone(sorted), func(n corev1.Node) bool { return !NodeReady(&n) || !n.DeletionTimestamp.IsZero() })
	if len(usable) > 0 {
		sorted = usable
	}
	slices.SortFunc(sorted, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return sorted
}

// NodeReady reports whether a Node has condition Ready with status True.
func NodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
