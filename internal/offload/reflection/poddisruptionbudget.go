package reflection

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// PodDisruptionBudgetKind is the Kind.Name of PodDisruptionBudgets.
const PodDisruptionBudgetKind = "PodDisruptionBudget"

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch

// PodDisruptionBudgetOptions are the inputs of decisions about PodDisruptionBudgets, apart from the objects in their namespace.
type PodDisruptionBudgetOptions struct {
	kinds.CopyOptions
	// Node is the virtual node of this virtual kubelet. The Pods on it are not watched for this kind.
	Node string
	// AtTarget reports whether a node is a virtual node of the provider.
	AtTarget func(node string) bool
}

// everyBudget is an index value that all PodDisruptionBudgets and all Pods share, because any budget may select any Pod.
const everyBudget = "any"

// PodDisruptionBudgets returns the Kind that reflects the PodDisruptionBudgets of offloaded namespaces. The limits of a copy take into account the
// healthy Pods that run outside the provider.
func PodDisruptionBudgets(workers int, options func() PodDisruptionBudgetOptions) Kind {
	first := options()
	kind := copies(PodDisruptionBudgetKind, workers, first.CopyOptions, &policyv1.PodDisruptionBudget{}, &policyv1.PodDisruptionBudget{}, func(f Facts) offload.Step {
		o := options()
		local, _ := f.Local.(*policyv1.PodDisruptionBudget)
		if local != nil && local.DeletionTimestamp == nil && !kinds.BudgetObserved(local) {
			return offload.Step{Why: "its status does not describe its current specification yet"}
		}
		return offload.NextCopy(object(f.Local), object(f.Remote[0]), f.Mapping, f.RemoteSynced, offload.CopyRules{
			Options: o.CopyOptions,
			Copy: func(obj offload.Object, namespace string) offload.Copy {
				budget, ok := obj.(*policyv1.PodDisruptionBudget)
				if !ok || len(f.Dependencies) != 1 {
					return offload.Copy{Why: "it is no PodDisruptionBudget"}
				}
				elsewhere, err := kinds.HealthyPods(budget, podsElsewhere(f.Dependencies[0].With(everyBudget), o.AtTarget))
				if err != nil {
					return offload.Copy{Why: err.Error(), Problem: err}
				}
				want, why, problem := kinds.PodDisruptionBudget(budget, namespace, elsewhere, o.CopyOptions)
				if want == nil {
					return offload.Copy{Why: why, Problem: problem}
				}
				return offload.Copy{Want: want, Problem: problem}
			},
			Merge: merge(kinds.MergePodDisruptionBudget),
		})
	})
	all := func(client.Object) []string { return []string{everyBudget} }
	kind.Local.Index = all
	kind.Dependencies = []Dependency{{
		Resource: Resource{Object: &corev1.Pod{}, Fields: "spec.nodeName!=" + first.Node, Strip: stripCountedPod, Index: all},
		Concerns: all,
	}}
	return kind
}

// podsElsewhere returns the Pods that do not run in the provider.
func podsElsewhere(objects []client.Object, atTarget func(node string) bool) []*corev1.Pod {
	var out []*corev1.Pod
	for _, obj := range objects {
		if pod, ok := obj.(*corev1.Pod); ok && !atTarget(pod.Spec.NodeName) {
			out = append(out, pod)
		}
	}
	return out
}

// stripCountedPod keeps the fields of a Pod that decide whether it counts as healthy.
func stripCountedPod(obj client.Object) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	var conditions []corev1.PodCondition
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			conditions = append(conditions, corev1.PodCondition{Type: c.Type, Status: c.Status})
		}
	}
	pod.ObjectMeta = metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Labels: pod.Labels, DeletionTimestamp: pod.DeletionTimestamp,
	}
	pod.Spec, pod.Status = corev1.PodSpec{NodeName: pod.Spec.NodeName}, corev1.PodStatus{Conditions: conditions}
}
