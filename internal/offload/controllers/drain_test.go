package controllers

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// drained is a client that records the pods that were deleted by force, and refuses to evict the pod that a disruption budget protects.
type drained struct {
	client.WithWatch
	forced []string
}

func draining(protected string, objs ...client.Object) *drained {
	d := &drained{}
	d.WithWatch = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objs...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceCreate: func(ctx context.Context, c client.Client, sub string, obj, body client.Object, opts ...client.SubResourceCreateOption) error {
				if obj.GetName() == protected {
					return apierrors.NewTooManyRequests("the budget is used up", 0)
				}
				return c.SubResource(sub).Create(ctx, obj, body, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				options := (&client.DeleteOptions{}).ApplyOptions(opts)
				if options.GracePeriodSeconds != nil && *options.GracePeriodSeconds == 0 {
					d.forced = append(d.forced, obj.GetName())
				}
				return c.Delete(ctx, obj, opts...)
			},
		}).Build()
	return d
}

// TestDrainEnds: no pod can block a drain for longer than the delay that drain returns.
func TestDrainEnds(t *testing.T) {
	since := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	held := podOn("shop", "held", "milan")
	held.Finalizers = []string{"example.org/never"}
	world := draining("guarded", podOn("shop", "guarded", "milan"), held, podOn("shop", "plain", "milan"), podOn("shop", "elsewhere", "turin"))
	drains := newDrains(world)
	node := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "milan"}}
	limit := offload.DrainLimit(nil, false)
	for _, step := range []struct {
		after time.Duration
		says  []string
		stuck []string
	}{
		{0, []string{"waiting for 3 pods", "deleted by force at 2026-05-01T12:01:00Z", "shop/guarded (a disruption budget refuses the eviction)"}, nil},
		{time.Second, []string{"waiting for 2 pods", "shop/held (held by finalizers example.org/never)"}, nil},
		{limit, []string{"without them at 2026-05-01T12:01:30Z"}, nil},
		{limit + time.Second, []string{"waiting for 1 pods", "shop/held"}, nil},
		{limit + offload.DrainEnd, nil, []string{"shop/held (held by finalizers example.org/never)"}},
	} {
		stuck, err := drains.drain(t.Context(), node, false, since, since.Add(step.after))
		if (err == nil) != (len(step.says) == 0) || err != nil && !kube.IsWait(err) || !slices.Equal(stuck, step.stuck) {
			t.Fatalf("after %s: %v, %v", step.after, stuck, err)
		}
		for _, want := range step.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("after %s: %v, want %q", step.after, err, want)
			}
		}
	}
	if !slices.Contains(world.forced, "guarded") {
		t.Errorf("removed by force: %v", world.forced)
	}
	if err := world.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "elsewhere"}, &corev1.Pod{}); err != nil {
		t.Errorf("a pod of another node: %v", err)
	}
}

// TestLostPods: Pods of ShadowPods that cannot terminate on failed nodes are replaced, and no other pods.
func TestLostPods(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	node := func(ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}
	}
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		sp := shadowPod("shop", "web", corev1.RestartPolicyAlways)
		sp.UID = "uid"
		p := offload.Pod(sp, offload.PodMetadata{})
		end := metav1.NewTime(now.Add(-time.Minute))
		p.Spec.NodeName, p.DeletionTimestamp, p.Finalizers = "worker", &end, []string{"x"} // without a finalizer the fake client refuses such a Pod
		if change != nil {
			change(p)
		}
		return p
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		node *corev1.Node
		lost bool
	}{
		"its node has failed":        {pod(nil), node(corev1.ConditionFalse), true},
		"its node is silent":         {pod(nil), node(corev1.ConditionUnknown), true},
		"its node is gone":           {pod(nil), nil, true},
		"its node works":             {pod(nil), node(corev1.ConditionTrue), false},
		"its grace period goes on":   {pod(func(p *corev1.Pod) { end := metav1.NewTime(now); p.DeletionTimestamp = &end }), node(corev1.ConditionFalse), false},
		"it is not evicted":          {pod(func(p *corev1.Pod) { p.DeletionTimestamp = nil }), node(corev1.ConditionFalse), false},
		"it is of no ShadowPod":      {pod(func(p *corev1.Pod) { p.OwnerReferences = nil }), node(corev1.ConditionFalse), false},
		"it never came to any node":  {pod(func(p *corev1.Pod) { p.Spec.NodeName = "" }), nil, false},
		"it is somebody else's kind": {pod(func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "example.org/v1" }), node(corev1.ConditionFalse), false},
	} {
		t.Run(name, func(t *testing.T) {
			objs := []client.Object{c.pod}
			if c.node != nil {
				objs = append(objs, c.node)
			}
			world := draining("", objs...)
			r := &lostPods{Client: world, live: world, Options: Options{Now: func() time.Time { return now }}}
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c.pod)}); err != nil {
				t.Fatal(err)
			}
			if lost := len(world.forced) > 0; lost != c.lost {
				t.Errorf("removed: %v", lost)
			}
		})
	}
}
