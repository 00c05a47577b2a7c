package offload

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// defaultArchitecture is the architecture of a VirtualNode without an architecture label.
const defaultArchitecture = "amd64"

// NodeLabels returns the labels of a VirtualNode's Node that a cluster selector may match. These are the labels that identify a virtual node, the
// labels of the VirtualNode itself, and the labels in its spec. A label that the provider granted does not override a label of the VirtualNode
// itself, which an administrator set.
func NodeLabels(node *offloadingv1beta1.VirtualNode) map[string]string {
	labels := make(map[string]string, len(node.Labels)+len(node.Spec.Labels)+8)
	maps.Copy(labels, node.Labels)
	granted := GrantedLabels(node)
	for key, value := range node.Spec.Labels {
		if _, onObject := node.Labels[key]; !onObject || !granted(key, value) {
			labels[key] = value
		}
	}
	labels[corev1.LabelHostname] = node.Name
	for _, fact := range []struct{ label, older, otherwise string }{
		{corev1.LabelOSStable, "beta.kubernetes.io/os", string(corev1.Linux)},
		{corev1.LabelArchStable, "beta.kubernetes.io/arch", defaultArchitecture},
	} {
		if labels[fact.label] == "" {
			labels[fact.label] = cmp.Or(labels[fact.older], fact.otherwise)
		}
	}
	labels["type"] = "virtual-kubelet"
	labels[api.LabelType] = api.TypeVirtualNode
	labels[api.LabelRemoteClusterID] = node.Spec.ClusterID
	labels[offloadingv1beta1.LabelStorageAvailable] = strconv.FormatBool(len(node.Spec.StorageClasses) > 0)
	return labels
}

// Selected returns the sorted IDs of the clusters that a cluster selector matches. A cluster with several virtual nodes matches if one of them
// matches. An empty selector matches all clusters.
func Selected(selector *corev1.NodeSelector, nodes []offloadingv1beta1.VirtualNode) []string {
	ids := sets.New[string]()
	for i := range nodes {
		if matches(selector, &nodes[i]) {
			ids.Insert(nodes[i].Spec.ClusterID)
		}
	}
	return sets.List(ids)
}

// SelectedClusters returns the sorted IDs of the clusters that a NamespaceOffloading selects.
//
// Some labels exist only on the Node, so a selector may not match while the Node is missing. That happens after kubectl delete node, or where a cloud
// provider removes Nodes that it does not know. The argument lost holds the clusters with a missing Node. Such a cluster stays selected if it was
// selected for this generation of the NamespaceOffloading. Otherwise its remote namespace would be deleted with everything in it.
func SelectedClusters(o *offloadingv1beta1.NamespaceOffloading, nodes []offloadingv1beta1.VirtualNode, lost sets.Set[string]) []string {
	ids := sets.New(Selected(o.Spec.ClusterSelector, nodes)...)
	if o.Status.ObservedGeneration != o.Generation {
		return sets.List(ids)
	}
	for _, id := range Clusters(nodes) {
		if lost.Has(id) && Required(o.Status.RemoteNamespacesConditions[id]) {
			ids.Insert(id)
		}
	}
	return sets.List(ids)
}

// Required reports whether a cluster is to have the remote namespace, by the conditions about that cluster.
func Required(conditions []offloadingv1beta1.RemoteNamespaceCondition) bool {
	return slices.ContainsFunc(conditions, func(c offloadingv1beta1.RemoteNamespaceCondition) bool {
		return c.Type == offloadingv1beta1.RemoteNamespaceRequired && c.Status == corev1.ConditionTrue
	})
}

// NotReady lists the clusters in which the remote namespace is not ready, with the reasons, in brackets. It is empty if there are none.
func NotReady(o *offloadingv1beta1.NamespaceOffloading) string {
	var out []string
	for id, conditions := range o.Status.RemoteNamespacesConditions {
		for _, condition := range conditions {
			if condition.Type == offloadingv1beta1.RemoteNamespaceReady && condition.Status != corev1.ConditionTrue {
				out = append(out, fmt.Sprintf("cluster %s: %s: %s", id, condition.Reason, condition.Message))
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.Sort(out)
	return " (" + strings.Join(out, "; ") + ")"
}

// Clusters returns the sorted IDs of all clusters that have a virtual node.
func Clusters(nodes []offloadingv1beta1.VirtualNode) []string { return Selected(nil, nodes) }

// matches reports whether one of the selector's terms matches the node. As everywhere in Kubernetes, a term without requirements matches no node.
func matches(selector *corev1.NodeSelector, node *offloadingv1beta1.VirtualNode) bool {
	if selector == nil || len(selector.NodeSelectorTerms) == 0 {
		return true
	}
	labels, fields := NodeLabels(node), map[string]string{"metadata.name": node.Name}
	return slices.ContainsFunc(selector.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			return false
		}
		return holds(term.MatchExpressions, labels) && holds(term.MatchFields, fields)
	})
}

func holds(requirements []corev1.NodeSelectorRequirement, values map[string]string) bool {
	for _, r := range requirements {
		value, present := values[r.Key]
		if !requirementHolds(r, value, present) {
			return false
		}
	}
	return true
}

// requirementHolds follows the scheduler: NotIn and DoesNotExist match an absent key, Gt and Lt compare integers.
func requirementHolds(r corev1.NodeSelectorRequirement, value string, present bool) bool {
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return present && slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !present || !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpExists:
		return present
	case corev1.NodeSelectorOpDoesNotExist:
		return !present
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if !present || len(r.Values) != 1 {
			return false
		}
		have, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return false
		}
		bound, err := strconv.ParseInt(r.Values[0], 10, 64)
		if err != nil {
			return false
		}
		return (r.Operator == corev1.NodeSelectorOpGt && have > bound) || (r.Operator == corev1.NodeSelectorOpLt && have < bound)
	default:
		return false
	}
}
