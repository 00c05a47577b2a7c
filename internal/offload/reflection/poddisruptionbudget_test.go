package reflection_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/liqo/test/apitest"
)

// TestDisruptionBudgetsOnAPIServers copies a budget with the permissions of the chart. The test plays the disruption controller of the consumer.
func TestDisruptionBudgetsOnAPIServers(t *testing.T) {
	near, far := apitest.APIServers(t)
	w := newWorld(t, near, far)
	w.letWork()
	w.start()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: w.at("web"), Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, MaxUnavailable: new(intstr.FromString("50%")),
	}}
	w.create(w.near, budget)
	compute := func(desired int32) {
		t.Helper()
		budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, DesiredHealthy: desired}
		if err := w.near.Status().Update(t.Context(), budget); err != nil {
			t.Fatal(err)
		}
	}
	got := &policyv1.PodDisruptionBudget{}
	keeps := func(want int32) {
		t.Helper()
		w.there(got, "web", fmt.Sprintf("the provider to keep %d", want), func() error {
			if got.Spec.MinAvailable == nil || got.Spec.MinAvailable.IntVal != want || got.Spec.MaxUnavailable != nil {
				return fmt.Errorf("%+v", got.Spec)
			}
			return nil
		})
	}
	compute(2)
	keeps(2)
	// One pod is ready in the consumer and one in the provider. The provider already counts the latter.
	here := &corev1.Pod{ObjectMeta: w.at("here"), Spec: corev1.PodSpec{NodeName: "real", Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}
	here.Labels = map[string]string{"app": "web"}
	w.create(w.near, here)
	w.pod("there")
	w.waitReady(1)
	keeps(2)
	run(here)
	if err := w.near.Status().Update(t.Context(), here); err != nil {
		t.Fatal(err)
	}
	keeps(1)
	before := w.farWrites.Load()
	here.Status.Conditions[0].Status = corev1.ConditionFalse
	if err := w.near.Status().Update(t.Context(), here); err != nil {
		t.Fatal(err)
	}
	keeps(2)
	if n := w.farWrites.Load() - before; n != 1 {
		t.Errorf("%d writes for one change", n)
	}
	if err := w.near.Delete(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	w.there(got, "web", "the copy to go", nil)
}
