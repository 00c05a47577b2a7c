package kinds

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestEveryFieldOfAPodDisruptionBudgetHasARule(t *testing.T) {
	// MinAvailable is computed from the status, so it is not copied.
	everyField(t, map[string]bool{"Selector": true, "UnhealthyPodEvictionPolicy": true, "MinAvailable": false, "MaxUnavailable": false}, func(in *policyv1.PodDisruptionBudgetSpec) *policyv1.PodDisruptionBudgetSpec {
		if in.Selector == nil {
			in.Selector = &metav1.LabelSelector{}
		}
		out, _, _ := PodDisruptionBudget(&policyv1.PodDisruptionBudget{Spec: *in}, "shop-rome", 0, plainOptions)
		if diff := cmp.Diff(new(intstr.FromInt32(0)), out.Spec.MinAvailable); diff != "" {
			t.Error(diff)
		}
		out.Spec.MinAvailable = nil
		return &out.Spec
	})
}

// TestNumbersOfBudgets resolves budgets for pods that run in several clusters.
func TestNumbersOfBudgets(t *testing.T) {
	for what, row := range map[string]struct {
		desired, elsewhere, want int32
	}{
		"all of them there":                {1, 0, 1},
		"some here":                        {3, 2, 1},
		"enough here":                      {2, 2, 0},
		"more than enough here":            {2, 5, 0},
		"not enough anywhere, none missed": {4, 1, 3},
	} {
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 2}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}, MaxUnavailable: new(intstr.FromString("50%"))},
			Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, DesiredHealthy: row.desired},
		}
		out, _, problem := PodDisruptionBudget(budget, "shop-rome", row.elsewhere, plainOptions)
		if problem != nil || out.Spec.MinAvailable.Type != intstr.Int || out.Spec.MinAvailable.IntVal != row.want || out.Spec.MaxUnavailable != nil {
			t.Errorf("%s: %+v, %v", what, out.Spec, problem)
		}
	}
	failed := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}, Status: policyv1.PodDisruptionBudgetStatus{
		Conditions: []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Reason: policyv1.SyncFailedReason, Message: "found no controllers"}},
	}}
	if out, _, problem := PodDisruptionBudget(failed, "shop-rome", 3, plainOptions); problem == nil || !strings.Contains(problem.Error(), "found no controllers") || out.Spec.MinAvailable.IntVal != math.MaxInt32 {
		t.Errorf("numbers that can't be computed: %+v, %v", out.Spec, problem)
	}
	if out, why, _ := PodDisruptionBudget(&policyv1.PodDisruptionBudget{}, "shop-rome", 0, plainOptions); out != nil || why == "" {
		t.Errorf("one that selects nothing: %+v", out)
	}
	if BudgetObserved(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Generation: 1}}) {
		t.Error("a new one is taken for observed")
	}
}

func TestHealthyPods(t *testing.T) {
	at := func(label string, ready corev1.ConditionStatus, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": label}}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		if change != nil {
			change(p)
		}
		return p
	}
	budget := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	n, err := HealthyPods(budget, []*corev1.Pod{
		at("web", corev1.ConditionTrue, nil), at("db", corev1.ConditionTrue, nil), at("web", corev1.ConditionFalse, nil), {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}},
		at("web", corev1.ConditionTrue, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }),
	})
	if n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
