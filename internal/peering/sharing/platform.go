package sharing

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
)

// platform counts the nodes of this cluster by architecture and operating system: for each label, the number of nodes with each value.
type platform map[string]map[string]int

// platformOf counts the nodes that accept pods of consumers, or all real nodes if none does at present.
func platformOf(nodes []corev1.Node) platform {
	accepting, all := platform{}, platform{}
	for i := range nodes {
		node := &nodes[i]
		if node.Labels[api.LabelType] == api.TypeVirtualNode {
			continue
		}
		all.count(node)
		if takesPods(node) {
			accepting.count(node)
		}
	}
	if len(accepting) == 0 {
		return all
	}
	return accepting
}

func (p platform) count(node *corev1.Node) {
	for _, label := range []string{corev1.LabelArchStable, corev1.LabelOSStable} {
		value := node.Labels[label]
		if value == "" {
			continue
		}
		if p[label] == nil {
			p[label] = map[string]int{}
		}
		p[label][value]++
	}
}

// labels returns the labels of a virtual node of this cluster. An existing value stays while there is a node with that value, because pods and
// cluster selectors of the consumer rely on it. Otherwise the value of most nodes is used, and of several such values the first in alphabetical
// order.
func (p platform) labels(present map[string]string) map[string]string {
	labels := map[string]string{}
	for label, counts := range p {
		if value := present[label]; counts[value] > 0 {
			labels[label] = value
			continue
		}
		labels[label] = slices.MinFunc(slices.Collect(maps.Keys(counts)), func(a, b string) int {
			return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
		})
	}
	return labels
}
