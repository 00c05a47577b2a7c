package scenario

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// cordon: milan's administrator cordons the tenant rome. Running pods continue. New pods wait, report the reason, and start after the cordon ends. liqoctl
// doctor reports the cordon while there is one, and nothing before and after.
func cordon(s *story.Story) {
	const ns = "cordon"
	rome, milan, twin := s.Rome, s.Milan, story.Twin(ns)
	s.Cleanup(func() { // for the case that the story ends early
		if s.Failed() {
			_ = setTenant(context.WithoutCancel(s.Context()), milan, authv1beta1.TenantActive)
		}
	})
	inMilan := func(words string) {
		s.Helper()
		_, err := s.Liqoctl(s.Context(), append(strings.Fields(words), "--kubeconfig", milan.Kubeconfig)...)
		s.Must(err)
	}
	doctor := func(want string) {
		s.Helper()
		s.Eventually(start, "the doctor to say: "+want, func(ctx context.Context) error {
			said, err := s.Liqoctl(ctx, "doctor", "--verbose", "--kubeconfig", rome.Kubeconfig, "--remote-kubeconfig", milan.Kubeconfig)
			if err == nil && !strings.Contains(said, want) {
				err = fmt.Errorf("the doctor says:\n%s", said)
			}
			return err
		})
	}
	s.Step("a pod in milan", func() {
		s.Offload(ns)
		s.Must(rome.Create(s.Context(), story.PodOn("milan", ns, "before", playground.TestServer)))
		s.PodReady(rome, ns, "before", start)
	})
	before := *s.Pod(milan, twin, "before")
	s.Step("nothing is wrong", func() {
		doctor("agreement with rome: both are")
	})
	s.Step("milan cordons rome", func() {
		inMilan("cordon tenant rome")
		doctor("liqoctl uncordon tenant rome")
	})
	s.Step("a new pod is not let in, and rome says why", func() {
		s.Must(rome.Create(s.Context(), story.PodOn("milan", ns, "after", playground.TestServer)))
		event(s, rome, ns, "after", func(e corev1.Event) bool { return e.Type == corev1.EventTypeWarning })
		if pods := s.Pods(milan, twin); len(pods) != 1 {
			s.Errorf("milan has the pods %v, want the one from before", story.Names(pods))
		}
		untouched(s, before, *s.Pod(milan, twin, "before"))
	})
	s.Step("without the cordon it runs, but not with one of the request", func() {
		inMilan("cordon resourceslice milan --remote-cluster-id rome")
		inMilan("uncordon tenant rome")
		if pods := s.Pods(milan, twin); len(pods) != 1 {
			s.Errorf("milan has the pods %v, want the one from before", story.Names(pods))
		}
		inMilan("uncordon resourceslice milan --remote-cluster-id rome")
		s.PodReady(rome, ns, "after", time.Minute)
		untouched(s, before, *s.Pod(milan, twin, "before"))
	})
	s.Step("without pods", func() {
		s.Must(rome.DeleteAllOf(s.Context(), &corev1.Pod{}, client.InNamespace(ns)))
		s.PodsReady(rome, ns, 0, start)
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
