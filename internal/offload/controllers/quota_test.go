package controllers

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/test/apitest"
)

// TestQuotasOnAPIServer creates all ShadowPods of a consumer at once, so that admission sees none of the others.
func TestQuotasOnAPIServer(t *testing.T) {
	const user, limit, wanted = "pool-0a1b2c3d4e5f", 4, 20
	config := apitest.APIServer(t)
	c := start(t, config, func(o *Options) { o.EnforceQuotas = true })
	c.namespace(t, "crowd", nil)
	c.namespace(t, "tenant", nil)
	pods, err := c.typed.CoreV1().Pods("crowd").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Stop()

	for i := range wanted {
		sp := shadowPod("crowd", fmt.Sprint("web-", i), corev1.RestartPolicyNever)
		sp.Labels[offloadingv1beta1.LabelCreatorUser] = user
		sp.Spec.Pod.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		c.create(t, sp)
	}
	held := func(what string) {
		t.Helper()
		apitest.Eventually(t, within, what, func() error {
			var events eventsv1.EventList
			if err := c.List(t.Context(), &events, client.InNamespace("crowd")); err != nil {
				return err
			}
			for _, e := range events.Items {
				if e.Reason == reasons.QuotaExceeded && e.Regarding.Kind == "ShadowPod" {
					return nil
				}
			}
			return fmt.Errorf("%d events, none of them tells", len(events.Items))
		})
	}
	held("the lack of a Quota to be told")
	if n := len(c.pods(t)); n > 0 {
		t.Fatalf("%d pods without a Quota", n)
	}
	quota := &offloadingv1beta1.Quota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: user},
		Spec:       offloadingv1beta1.QuotaSpec{User: user, Resources: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(limit, resource.DecimalSI)}},
	}
	c.create(t, quota)

	// Whenever a pod ends, exactly one waiting pod starts.
	running, ended := map[string]bool{}, 0
	for ended < wanted {
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case e := <-pods.ResultChan():
			pod, ok := e.Object.(*corev1.Pod)
			if !ok {
				t.Fatalf("watching: %+v", e.Object)
			}
			if e.Type == watch.Added {
				running[pod.Name] = true
			}
		}
		if len(running) > limit {
			t.Fatalf("%d pods, %d are granted", len(running), limit)
		}
		if len(running) == limit || len(running)+ended == wanted {
			for name := range running {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "crowd", Name: name}}
				delete(running, name)
				report(t, c, pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
				ended++
			}
		}
	}
	if n := len(c.pods(t)); n != wanted {
		t.Errorf("%d pods in the end, want %d", n, wanted)
	}

	// A ShadowPod that is deleted while it waits leaves nothing behind, and a larger Quota admits waiting ShadowPods.
	for _, name := range []string{"never", "later"} {
		sp := shadowPod("crowd", name, corev1.RestartPolicyNever)
		sp.Labels[offloadingv1beta1.LabelCreatorUser] = user
		sp.Spec.Pod.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(limit+1, resource.DecimalSI)}
		c.create(t, sp)
	}
	c.stays(t, "more than is granted at all got a place", func() bool { return len(c.pods(t)) == wanted })
	c.remove(t, shadowPod("crowd", "never", ""))
	change(t, c, quota, func(q *offloadingv1beta1.Quota) {
		q.Spec.Resources[corev1.ResourceCPU] = *resource.NewQuantity(limit+1, resource.DecimalSI)
	})
	later := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "crowd", Name: "later"}}
	eventually(t, c, later, "the pod", anything)

	// A resized pod is counted again, and waits for room like others.
	sp := shadowPod("crowd", "later", "")
	resize := func(cpu int64) {
		t.Helper()
		change(t, c, sp, func(sp *offloadingv1beta1.ShadowPod) {
			sp.Annotations[podrules.AnnotationSpec] = fmt.Sprintf("image=%d,resources=%d", cpu, cpu)
			sp.Spec.Pod.Containers[0].Image = fmt.Sprintf("web:%d", cpu)
			for _, list := range []corev1.ResourceList{sp.Spec.Pod.Containers[0].Resources.Requests, sp.Spec.Pod.Containers[0].Resources.Limits} {
				if list != nil {
					list[corev1.ResourceCPU] = *resource.NewQuantity(cpu, resource.DecimalSI)
				}
			}
			sp.Spec.Pod.Containers[0].Resources.Requests = sp.Spec.Pod.Containers[0].Resources.Limits
		})
	}
	has := func(cpu int64) func(*corev1.Pod) error {
		return func(p *corev1.Pod) error {
			if got := p.Spec.Containers[0].Resources.Requests.Cpu().Value(); got != cpu {
				return fmt.Errorf("%d CPUs", got)
			}
			return nil
		}
	}
	resize(limit + 2)
	eventually(t, c, later, "the image, which does not wait for room", func(p *corev1.Pod) error {
		if want := fmt.Sprintf("web:%d", limit+2); p.Spec.Containers[0].Image != want {
			return fmt.Errorf("image %s", p.Spec.Containers[0].Image)
		}
		return has(limit + 1)(p)
	})
	c.stays(t, "a pod grew beyond what is granted", func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(later), later) == nil && has(limit+1)(later) == nil
	})
	change(t, c, quota, func(q *offloadingv1beta1.Quota) {
		q.Spec.Resources[corev1.ResourceCPU] = *resource.NewQuantity(limit+2, resource.DecimalSI)
	})
	eventually(t, c, later, "the pod to grow", has(limit+2))

	// A pod that its node has not resized down yet counts with its former resources, also if it is resized up again meanwhile.
	still := func(cpu int64) {
		t.Helper()
		report(t, c, later, func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, Resources: &corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpu, resource.DecimalSI)},
			}}}
		})
	}
	still(limit + 2)
	resize(1)
	eventually(t, c, later, "the pod to be made smaller", has(1))
	other := shadowPod("crowd", "other", corev1.RestartPolicyNever)
	other.Labels[offloadingv1beta1.LabelCreatorUser] = user
	other.Spec.Pod.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(limit, resource.DecimalSI)}
	c.create(t, other)
	waits := func() bool { return len(c.pods(t)) == wanted+1 }
	c.stays(t, "a pod got what another one still has", waits)
	resize(2)
	eventually(t, c, later, "the pod to be made greater", has(2))
	c.stays(t, "a pod got what another one still has, and has more of than a moment ago", waits)
	still(2)
	eventually(t, c, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "crowd", Name: "other"}}, "the pod, once there is room", anything)
}

func (c *cluster) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	if err := c.List(t.Context(), list, client.InNamespace("crowd")); err != nil {
		t.Fatal(err)
	}
	return list.Items
}
