package kinds

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/liqo/api"
)

// BudgetObserved reports whether the status of a PodDisruptionBudget describes its current specification. If not, its numbers must not be used.
func BudgetObserved(local *policyv1.PodDisruptionBudget) bool {
	return local.Status.ObservedGeneration >= local.Generation && local.Generation > 0
}

// HealthyPods returns the number of Pods that a PodDisruptionBudget's controller would count as healthy.
func HealthyPods(budget *policyv1.PodDisruptionBudget, pods []*corev1.Pod) (int32, error) {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return 0, fmt.Errorf("spec.selector: %w", err)
	}
	var n int32
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil && api.PodReady(pod) && selector.Matches(labels.Set(pod.Labels)) {
			n++
		}
	}
	return n, nil
}

// PodDisruptionBudget returns the copy of local, or why it has none, and a problem for the user. The argument elsewhere is the number of its healthy
// Pods that do not run in the provider. The status of local must be up to date (BudgetObserved).
//
// The copy's minAvailable is computed in the origin cluster, which knows all Pods and the controllers that own them. There, status.desiredHealthy is
// the result of percentages, minAvailable and maxUnavailable. The provider has to keep that number minus the healthy Pods elsewhere. The result does
// not depend on the Pods in the provider, so it stays valid while the clusters can't reach each other.
func PodDisruptionBudget(local *policyv1.PodDisruptionBudget, namespace string, elsewhere int32, o CopyOptions) (out *policyv1.PodDisruptionBudget, why string, problem error) {
	if why := Kept(local.Annotations, o); why != "" {
		return nil, why, nil
	}
	if local.Spec.Selector == nil {
		return nil, "it selects no pods", nil
	}
	keep := max(local.Status.DesiredHealthy-elsewhere, 0)
	if i := slices.IndexFunc(local.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == policyv1.DisruptionAllowedCondition && c.Reason == policyv1.SyncFailedReason
	}); i >= 0 { // the origin cluster allows no disruption then, either
		keep = math.MaxInt32
		problem = fmt.Errorf("none of its pods may be evicted, here or in cluster %s, since the number of healthy pods cannot be computed: %s; use minAvailable with a number, or give the pods "+
			"a controller that can be scaled", o.Destination, local.Status.Conditions[i].Message)
	}
	out = &policyv1.PodDisruptionBudget{ObjectMeta: copyMetadata(resourcePodDisruptionBudgets, local, namespace, o)}
	out.Spec.Selector = local.Spec.Selector.DeepCopy()
	out.Spec.UnhealthyPodEvictionPolicy = local.Spec.UnhealthyPodEvictionPolicy
	number := intstr.FromInt32(keep)
	out.Spec.MinAvailable = &number
	return out, "", problem
}

// MergePodDisruptionBudget returns the object have with the metadata and spec of want, and the change that this needs.
func MergePodDisruptionBudget(have, want *policyv1.PodDisruptionBudget) (*policyv1.PodDisruptionBudget, Change) {
	out := have.DeepCopy()
	mergeMetadata(&out.ObjectMeta, &want.ObjectMeta)
	out.Spec = *want.Spec.DeepCopy()
	return merged(have, out)
}
