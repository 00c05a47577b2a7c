package podrules

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/offload/kinds"
)

// bindingLabels are labels that admission in the origin cluster sets on a Pod at its binding: the topology labels of the virtual node. They are not
// copied, because the provider sets the topology labels of its own node.
var bindingLabels = []string{"topology.kubernetes.io/*", "topology.k8s.io/*"}

// admissionAnnotations are annotations in which admission in the origin cluster records its changes of a Pod. They are not copied, because the
// provider's admission records its own changes.
var admissionAnnotations = []string{"kubernetes.io/limit-ranger", "openshift.io/scc", "kubernetes.io/psp"}

// WithoutBinding removes from labels, in place, the labels that admission or a binding sets.
func WithoutBinding(labels map[string]string) { kinds.Drop(labels, bindingLabels) }

// unmerge removes from a selector, in place, the requirements that an API server derived from keys and the labels of the Pod when it stored the Pod.
// The provider's API server derives them again, and refuses keys that the selector already contains.
func unmerge(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator, labels map[string]string) {
	if selector == nil || len(keys) == 0 {
		return
	}
	selector.MatchExpressions = slices.DeleteFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		value, found := labels[r.Key]
		return found && slices.Contains(keys, r.Key) && r.Operator == operator && slices.Equal(r.Values, []string{value})
	})
}

// unmergeTerm applies unmerge to a term of a Pod affinity.
func unmergeTerm(term *corev1.PodAffinityTerm, labels map[string]string) {
	unmerge(term.LabelSelector, term.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
	unmerge(term.LabelSelector, term.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, labels)
}

// ofOrigin reports whether only the origin cluster can enforce a topology spread constraint. This is so if it is DoNotSchedule with a topologyKey other than
// the host name. Nodes of the provider may lack the label of that key, and the scheduler of the provider would then exclude them. All nodes have the host
// name label.
func ofOrigin(c *corev1.TopologySpreadConstraint) bool {
	return c.WhenUnsatisfiable == corev1.DoNotSchedule && c.TopologyKey != corev1.LabelHostname
}

// spread returns the constraints for the provider's nodes. A constraint that only the origin cluster can enforce becomes a preference.
func spread(in []corev1.TopologySpreadConstraint, labels map[string]string) []corev1.TopologySpreadConstraint {
	var out []corev1.TopologySpreadConstraint
	has := func(of corev1.TopologySpreadConstraint) bool {
		return slices.ContainsFunc(in, func(c corev1.TopologySpreadConstraint) bool {
			return c.TopologyKey == of.TopologyKey && c.WhenUnsatisfiable == corev1.ScheduleAnyway
		})
	}
	for i := range in {
		c := in[i]
		unmerge(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
		if ofOrigin(&c) {
			if has(c) { // the API server refuses duplicates
				continue
			}
			c.WhenUnsatisfiable, c.MinDomains = corev1.ScheduleAnyway, nil
		}
		out = append(out, c)
	}
	return out
}

// schedulingProblems returns one sentence for each constraint that only the origin cluster can enforce.
func schedulingProblems(local *corev1.Pod) []string {
	var out []string
	for i := range local.Spec.TopologySpreadConstraints {
		if c := &local.Spec.TopologySpreadConstraints[i]; ofOrigin(c) {
			out = append(out, fmt.Sprintf("spec.topologySpreadConstraints[%d].whenUnsatisfiable is DoNotSchedule for topologyKey %q, but only a preference among the nodes of the provider, "+
				"which may lack that label: use topologyKey %s, or spec.offloadingPatch.affinity of the VirtualNode", i, c.TopologyKey, corev1.LabelHostname))
		}
	}
	return out
}
