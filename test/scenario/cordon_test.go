package scenario

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// cordon: milan's administrator lets nothing more of rome in. What runs goes on, what is new waits, says why, and comes when it may.
func cordon(s *story.Story) {
	const ns = "cordon"
	rome, milan, twin := s.Rome, s.Milan, story.Twin(ns)
	s.Step("a pod in milan", func() {
		s.Offload(ns)
		s.Must(rome.Create(s.Context(), story.PodOn("milan", ns, "before", playground.TestServer)))
		s.PodReady(rome, ns, "before", start)
	})
	before := *s.Pod(milan, twin, "before")
	s.Step("milan cordons rome", func() { tenant(s, authv1beta1.TenantCordoned) })
	s.Step("a new pod is not let in, and rome says why", func() {
		s.Must(rome.Create(s.Context(), story.PodOn("milan", ns, "after", playground.TestServer)))
		event(s, rome, ns, "after", func(e corev1.Event) bool { return e.Type == corev1.EventTypeWarning })
		if pods := s.Pods(milan, twin); len(pods) != 1 {
			s.Errorf("milan has the pods %v, want the one from before", story.Names(pods))
		}
		untouched(s, before, *s.Pod(milan, twin, "before"))
	})
	s.Step("without the cordon it runs", func() {
		tenant(s, authv1beta1.TenantActive)
		s.PodReady(rome, ns, "after", time.Minute)
		untouched(s, before, *s.Pod(milan, twin, "before"))
	})
	s.Step("without pods", func() {
		s.Must(rome.DeleteAllOf(s.Context(), &corev1.Pod{}, client.InNamespace(ns)))
		s.PodsReady(rome, ns, 0, start)
	})
}

// tenant sets what rome may do in milan, and waits until that is in effect.
func tenant(s *story.Story, condition authv1beta1.TenantCondition) {
	s.Helper()
	s.Cleanup(func() { // if the story ends in between
		if s.Failed() {
			_ = setTenant(context.WithoutCancel(s.Context()), s.Milan, authv1beta1.TenantActive)
		}
	})
	s.Must(setTenant(s.Context(), s.Milan, condition))
	s.Eventually(start, "rome's quota in milan to follow", func(ctx context.Context) error {
		var quotas offloadingv1beta1.QuotaList
		if err := s.Milan.List(ctx, &quotas, client.InNamespace(api.TenantNamespace("rome"))); err != nil {
			return err
		}
		for _, quota := range quotas.Items {
			if cordoned := quota.Spec.Cordoned != nil && *quota.Spec.Cordoned; cordoned != (condition == authv1beta1.TenantCordoned) {
				return fmt.Errorf("quota %s is cordoned: %t", quota.Name, cordoned)
			}
		}
		return nil
	})
}

func setTenant(ctx context.Context, milan *playground.Cluster, condition authv1beta1.TenantCondition) error {
	var rome authv1beta1.Tenant
	if err := milan.Get(ctx, client.ObjectKey{Namespace: api.TenantNamespace("rome"), Name: "rome"}, &rome); err != nil {
		return err
	}
	before := rome.DeepCopy()
	rome.Spec.TenantCondition = condition
	return milan.Patch(ctx, &rome, client.MergeFrom(before))
}
