package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/test/apitest"
)

func shadowPod(namespace, name string, policy corev1.RestartPolicy) *offloadingv1beta1.ShadowPod {
	return &offloadingv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "x"}},
		Spec: offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{
			RestartPolicy: policy, Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
		}},
	}
}

func podOf(sp *offloadingv1beta1.ShadowPod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: sp.Namespace, Name: sp.Name}}
}

func anything[T client.Object](T) error { return nil }

// atOnce is the grace period with which the API server deletes a pod that no kubelet has seen.
var atOnce = client.GracePeriodSeconds(0)

func testShadowPod(t *testing.T, c *cluster) {
	c.namespace(t, "shadows", nil)
	before := c.shadowWrites.in("shadows")
	sp := shadowPod("shadows", "web", corev1.RestartPolicyAlways)
	sp.Annotations["iam.amazonaws.com/role"], sp.Annotations["prometheus.io/scrape"] = "admin", "true"
	c.create(t, sp)
	pod := podOf(sp)
	eventually(t, c, pod, "the pod", func(p *corev1.Pod) error {
		return has(p.Labels, map[string]string{"app": "web", "liqo.io/managed-by": "shadowpod"})
	})
	if _, found := pod.Annotations["iam.amazonaws.com/role"]; found || pod.Annotations["prometheus.io/scrape"] != "true" || pod.Annotations["note"] != "x" {
		t.Errorf("annotations %v", pod.Annotations)
	}
	if owner := metav1.GetControllerOf(pod); owner == nil || owner.UID != sp.UID {
		t.Errorf("owner %+v", owner)
	}
	phase := func(p corev1.PodPhase) {
		t.Helper()
		report(t, c, pod, func(pod *corev1.Pod) { pod.Status.Phase = p })
	}
	phase(corev1.PodRunning)
	reported := func(want corev1.PodPhase) {
		t.Helper()
		eventually(t, c, sp, "phase "+string(want), func(sp *offloadingv1beta1.ShadowPod) error {
			if sp.Status.Phase != want {
				return fmt.Errorf("phase %q", sp.Status.Phase)
			}
			return nil
		})
	}
	c.stays(t, "a running pod cost more than one write", func() bool { return c.shadowWrites.in("shadows")-before == 1 })

	for range 2 { // twice, since the Pod must be recreated after every deletion
		old := pod.UID
		c.remove(t, pod, atOnce)
		eventually(t, c, pod, "another pod", func(p *corev1.Pod) error {
			if p.UID == old {
				return errors.New("still the old one")
			}
			return nil
		})
	}
	phase(corev1.PodFailed)
	reported(corev1.PodFailed)
	c.remove(t, pod, atOnce)
	c.stays(t, "a finished ShadowPod ran again", func() bool {
		return client.IgnoreNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)) != nil || podGone(t, c, pod)
	})
	reported(corev1.PodFailed)

	// A ShadowPod creates its Pod only after the Pod of an earlier ShadowPod of that name is deleted, and causes the deletion.
	c.remove(t, sp)
	c.gone(t, sp)
	first := shadowPod("shadows", "again", corev1.RestartPolicyAlways)
	c.create(t, first)
	pod = podOf(first)
	eventually(t, c, pod, "the pod", anything)
	old := pod.UID
	c.remove(t, first)
	c.gone(t, first)
	second := shadowPod("shadows", "again", corev1.RestartPolicyAlways)
	c.create(t, second)
	eventually(t, c, pod, "the pod of the second", func(p *corev1.Pod) error {
		if owner := metav1.GetControllerOf(p); p.UID == old || owner == nil || owner.UID != second.UID {
			return fmt.Errorf("pod %s of %+v", p.UID, owner)
		}
		return nil
	})
}

func podGone(t *testing.T, c *cluster, pod *corev1.Pod) bool {
	t.Helper()
	err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
	return err != nil && client.IgnoreNotFound(err) == nil
}

// stays checks for a while that something remains true, because a test can't wait for an event that must never happen.
func (c *cluster) stays(t *testing.T, what string, check func() bool) {
	t.Helper()
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if !check() {
			t.Fatal(what)
		}
	}
}

func testForeignPod(t *testing.T, c *cluster) {
	c.namespace(t, "foreign", nil)
	foreign := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "foreign", Name: "web", Labels: map[string]string{"owner": "somebody"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "other:1"}}},
	}
	c.create(t, foreign)
	before := foreign.ResourceVersion
	sp := shadowPod("foreign", "web", corev1.RestartPolicyAlways)
	c.create(t, sp)
	c.stays(t, "the foreign pod was touched", func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign) == nil && foreign.ResourceVersion == before
	})
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(sp), sp); err != nil || sp.Status.Phase != "" {
		t.Errorf("phase %q of a ShadowPod without a pod, %v", sp.Status.Phase, err)
	}
	apitest.Eventually(t, within, "an Event about the ShadowPod", func() error {
		var events corev1.EventList
		if err := c.List(t.Context(), &events, client.InNamespace("foreign")); err != nil {
			return err
		}
		if len(events.Items) == 0 || events.Items[0].Reason != "FailedCreatePod" || events.Items[0].InvolvedObject.Name != "web" {
			return fmt.Errorf("there are %+v", events.Items)
		}
		return nil
	})
}

// TestShadowPodRetriesWhileItsNameIsTaken: the deletion of a foreign Pod with our label causes no event, so the ShadowPod is requeued.
func TestShadowPodRetriesWhileItsNameIsTaken(t *testing.T) {
	sp := shadowPod("foreign", "web", corev1.RestartPolicyAlways)
	sp.UID = "1"
	foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "foreign", Name: "web", Labels: map[string]string{offloadingv1beta1.LabelManagedBy: offloadingv1beta1.ManagedByShadowPod},
	}}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(foreign).Build()
	r := &shadowPods{Client: c, live: c}
	if err := r.sync(t.Context(), sp); !kube.IsWait(err) {
		t.Errorf("while the name is taken: %v", err)
	}
	if err := c.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if err := r.sync(t.Context(), sp); err != nil {
		t.Errorf("once it is free: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || !metav1.IsControlledBy(foreign, sp) {
		t.Errorf("the pod: %v %+v", err, foreign.OwnerReferences)
	}
}

// TestPodsOfConsumersThatTolerateEverythingStayLocal: the webhook that keeps such pods off virtual nodes is not called for Pods of ShadowPods.
func TestPodsOfConsumersThatTolerateEverythingStayLocal(t *testing.T) {
	everything := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	for name, row := range map[string]struct {
		labels      map[string]string
		tolerations []corev1.Toleration
		change      func(*offloadingv1beta1.ShadowPod)
		local       bool
	}{
		"tolerates everything":                       {tolerations: everything, local: true},
		"tolerates nothing":                          {},
		"tolerates everything, of another effect":    {tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}},
		"tolerates everything, namespace offloaded":  {labels: map[string]string{offloadingv1beta1.LabelSchedulingEnabled: "true"}, tolerations: everything},
		"tolerates everything, requests such a node": {tolerations: everything, change: func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.RuntimeClassName = new("liqo") }},
	} {
		t.Run(name, func(t *testing.T) {
			sp := shadowPod("shop-rome", "web", corev1.RestartPolicyAlways)
			sp.UID, sp.Spec.Pod.Tolerations = "1", row.tolerations
			if row.change != nil {
				row.change(sp)
			}
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome", Labels: row.labels}}
			c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(sp, namespace).Build()
			r := &shadowPods{Client: c, live: c, runtimeClass: "liqo"}
			if err := r.sync(t.Context(), sp.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			got, want := podOf(sp), offload.Pod(sp, offload.PodMetadata{})
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(got), got); err != nil {
				t.Fatal(err)
			}
			if offload.KeepLocal(want, "liqo") != row.local && len(row.labels) == 0 {
				t.Errorf("the webhook would not decide so")
			}
			if !row.local {
				want = offload.Pod(sp, offload.PodMetadata{})
			}
			if !equality.Semantic.DeepEqual(got.Spec.Affinity, want.Spec.Affinity) {
				t.Errorf("affinity %+v, want %+v", got.Spec.Affinity, want.Spec.Affinity)
			}
		})
	}
}

// TestShadowPodEndsOnce: the event of a Pod's deletion may arrive before the event with its end.
func TestShadowPodEndsOnce(t *testing.T) {
	deleted, failure := metav1.Now(), errors.New("no answer")
	for name, test := range map[string]struct {
		change func(sp *offloadingv1beta1.ShadowPod) (now *offloadingv1beta1.ShadowPod)
		again  bool
		fails  error
	}{
		"it is there": {again: true, change: func(sp *offloadingv1beta1.ShadowPod) *offloadingv1beta1.ShadowPod { return sp }},
		"it is gone":  {change: func(*offloadingv1beta1.ShadowPod) *offloadingv1beta1.ShadowPod { return nil }},
		"it is another one": {change: func(sp *offloadingv1beta1.ShadowPod) *offloadingv1beta1.ShadowPod {
			sp.UID = "2"
			return sp
		}},
		"it is being deleted": {change: func(sp *offloadingv1beta1.ShadowPod) *offloadingv1beta1.ShadowPod {
			sp.DeletionTimestamp, sp.Finalizers = &deleted, []string{"foregroundDeletion"}
			return sp
		}},
		"it has finished": {change: func(sp *offloadingv1beta1.ShadowPod) *offloadingv1beta1.ShadowPod {
			sp.Status.Phase = corev1.PodSucceeded
			return sp
		}},
		"nobody answers": {fails: failure, change: func(sp *offloadingv1beta1.ShadowPod) *offloadingv1beta1.ShadowPod { return sp }},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %t", name, restarted), func(t *testing.T) {
				sp := shadowPod("home", "web", corev1.RestartPolicyAlways)
				sp.UID = "1"
				request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(sp)}
				server := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
						if test.fails != nil {
							return test.fails
						}
						return c.Get(ctx, key, obj, opts...)
					},
				})
				now := test.change(sp.DeepCopy())
				if now != nil {
					server = server.WithObjects(now)
				}
				live := server.Build()
				c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(sp.DeepCopy()).Build()
				start := func() *shadowPods {
					r := &shadowPods{Client: c, live: live}
					r.kind = &kube.Reconciler[*offloadingv1beta1.ShadowPod]{Name: "shadowpod", Client: c, Sync: r.sync}
					return r
				}
				r := start()
				if _, err := r.Reconcile(t.Context(), request); err != nil {
					t.Fatalf("the first pod, for which nobody is asked: %v", err)
				}
				if restarted { // the restarted controller did not create the Pod, but observes it
					r = start()
					if _, err := r.Reconcile(t.Context(), request); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.Delete(t.Context(), podOf(sp)); err != nil {
					t.Fatal(err)
				}
				result, err := r.Reconcile(t.Context(), request)
				if !errors.Is(err, test.fails) {
					t.Errorf("the pod is gone: %v, not %v", err, test.fails)
				}
				if there, err := exists(t.Context(), c, podOf(sp), request.NamespacedName); err != nil || there != test.again {
					t.Errorf("made again: %t, %v", there, err)
				}
				if waits := result.RequeueAfter > 0; waits == (test.again || test.fails != nil) {
					t.Errorf("looks again in %v", result.RequeueAfter)
				}

				// Now the event arrives.
				if err := c.Delete(t.Context(), sp.DeepCopy()); err != nil {
					t.Fatal(err)
				}
				if now != nil && now.UID != sp.UID {
					next := now.DeepCopy()
					next.ResourceVersion = ""
					if err := c.Create(t.Context(), next); err != nil {
						t.Fatal(err)
					}
					if _, err := r.Reconcile(t.Context(), request); err != nil {
						t.Fatal(err)
					}
					if pod := podOf(sp); c.Get(t.Context(), request.NamespacedName, pod) != nil || !metav1.IsControlledBy(pod, next) {
						t.Errorf("the pod of the next one: %+v", pod.OwnerReferences)
					}
					return
				}
				if _, err := r.Reconcile(t.Context(), request); err != nil {
					t.Fatal(err)
				}
				if _, had := r.had.Load(request.NamespacedName); had {
					t.Error("remembered for ever")
				}
			})
		}
	}
}

// TestShadowPodKeepsTheEnd: the end and the deletion of a Pod may arrive as one event, so the cache never has the end.
func TestShadowPodKeepsTheEnd(t *testing.T) {
	deleted := metav1.Now()
	for name, row := range map[string]struct {
		policy  corev1.RestartPolicy
		phase   corev1.PodPhase
		deleted bool
		want    corev1.PodPhase
	}{
		"evicted, to run once":       {corev1.RestartPolicyNever, corev1.PodFailed, true, corev1.PodFailed},
		"completed, to run once":     {corev1.RestartPolicyNever, corev1.PodSucceeded, false, corev1.PodSucceeded},
		"evicted, to run for ever":   {corev1.RestartPolicyAlways, corev1.PodFailed, true, ""},
		"deleted while it ran":       {corev1.RestartPolicyNever, corev1.PodRunning, true, ""},
		"evicted, to run on failure": {corev1.RestartPolicyOnFailure, corev1.PodFailed, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sp := shadowPod("home", "train", row.policy)
			sp.UID = "1"
			c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(sp.DeepCopy()).Build()
			r := &shadowPods{Client: c, live: c}
			last := offload.Pod(sp, offload.PodMetadata{})
			last.Spec.RestartPolicy, last.Status.Phase = row.policy, row.phase
			last.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143}}}}
			if row.deleted {
				last.DeletionTimestamp = &deleted
			}
			r.keepEnd(event.DeleteEvent{Object: last})
			if err := r.sync(t.Context(), sp); err != nil {
				t.Fatal(err)
			}
			again, err := exists(t.Context(), c, podOf(sp), client.ObjectKeyFromObject(sp))
			if err != nil || again != (row.want == "") || sp.Status.Phase != row.want {
				t.Errorf("made again %t, phase %q, %v", again, sp.Status.Phase, err)
			}
			if row.want != "" && (sp.Status.Pod == nil || sp.Status.Pod.ContainerStatuses[0].State.Terminated.ExitCode != 143) {
				t.Errorf("it kept %+v", sp.Status.Pod)
			}
			if err := r.sync(t.Context(), sp); err != nil {
				t.Fatal(err)
			}
			if _, kept := r.ended.Load(client.ObjectKeyFromObject(sp)); kept {
				t.Error("it is kept in memory for ever")
			}
		})
	}
}

// waitingPlan is a plan without the translation of the consumer's addresses.
type waitingPlan struct{ plan }

func (waitingPlan) Translation(context.Context, client.Reader, string) (func(netip.Addr) (netip.Addr, error), string, error) {
	return nil, "its Configuration", nil
}

// refusingPlan is a plan whose translation accepts no address of the consumer.
type refusingPlan struct{ plan }

func (refusingPlan) Translation(context.Context, client.Reader, string) (func(netip.Addr) (netip.Addr, error), string, error) {
	return func(netip.Addr) (netip.Addr, error) { return netip.Addr{}, errors.New("it is none of its addresses") }, "", nil
}

func TestWaitingShadowPodReservesNoQuota(t *testing.T) {
	sp := shadowPod("home", "web", corev1.RestartPolicyAlways)
	sp.UID, sp.Labels[offloadingv1beta1.LabelCreatorUser] = "1", "rome"
	sp.Spec.Pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	sp.Spec.Pod.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{kinds.OriginAPIServer}}}
	quota := &offloadingv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "rome"}, Spec: offloadingv1beta1.QuotaSpec{
		User: "rome", Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
	}}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(quota).Build()
	q := &quotas{
		Client: c, live: c, now: time.Now, synced: func() bool { return true },
		tracker: offload.NewUsageTracker(), held: map[types.NamespacedName]string{},
	}
	r := &shadowPods{Client: c, live: c, addresses: waitingPlan{}, quotas: q}
	if err := r.sync(t.Context(), sp); !kube.IsWait(err) {
		t.Fatalf("while its address is not known: %v", err)
	}
	if q.writing(client.ObjectKeyFromObject(sp)) {
		t.Error("it counts as a pod that is being made")
	}
	r.events, r.addresses = events.NewFakeRecorder(9), refusingPlan{}
	if err := r.sync(t.Context(), sp); !kube.IsWait(err) {
		t.Errorf("while it is none of the consumer's, which may change: %v", err)
	}
	r.addresses = nil
	if err := r.sync(t.Context(), sp); err != nil {
		t.Error(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(sp), podOf(sp)); err != nil {
		t.Errorf("once it is known: %v", err)
	}
}

func testShadowPodMetadata(t *testing.T, c *cluster) {
	c.namespace(t, "metadata", nil)
	sp := shadowPod("metadata", "web", corev1.RestartPolicyAlways)
	c.create(t, sp)
	pod := podOf(sp)
	eventually(t, c, pod, "the pod", anything)
	change(t, c, pod, func(p *corev1.Pod) {
		p.Labels["topology.kubernetes.io/zone"], p.Annotations["cni"] = "a", "10.0.0.1"
	})
	change(t, c, sp, func(sp *offloadingv1beta1.ShadowPod) {
		sp.Labels, sp.Annotations = map[string]string{"tier": "front"}, map[string]string{"note": "y"}
	})
	uid := pod.UID
	eventually(t, c, pod, "labels and annotations to follow", func(p *corev1.Pod) error {
		if _, still := p.Labels["app"]; still || p.UID != uid {
			return fmt.Errorf("labels %v, pod %s", p.Labels, p.UID)
		}
		return errors.Join(
			has(p.Labels, map[string]string{"tier": "front", "topology.kubernetes.io/zone": "a", "liqo.io/managed-by": "shadowpod"}),
			has(p.Annotations, map[string]string{"note": "y", "cni": "10.0.0.1"}))
	})
	settled := pod.ResourceVersion
	c.stays(t, "the pod is written again and again", func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && pod.ResourceVersion == settled
	})
}

// TestEndsOfPodsAreForgotten: the Pod of a deleted ShadowPod ends later, by garbage collection, and nothing of it stays in memory.
func TestEndsOfPodsAreForgotten(t *testing.T) {
	sp := shadowPod("home", "train", corev1.RestartPolicyAlways)
	sp.UID = "1"
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
	r := &shadowPods{Client: c, live: c}
	last := offload.Pod(sp, offload.PodMetadata{})
	last.Status.Phase = corev1.PodFailed
	r.keepEnd(event.DeleteEvent{Object: last})
	if err := r.forget(t.Context(), client.ObjectKeyFromObject(sp)); err != nil {
		t.Fatal(err)
	}
	if _, kept := r.ended.Load(client.ObjectKeyFromObject(sp)); kept {
		t.Error("the end of a Pod without ShadowPod is kept in memory for ever")
	}
}
