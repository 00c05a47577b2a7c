package podrules

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// TestUnobservedEnds: a pod ends while the provider is unreachable, and only its ShadowPod is left there.
func TestUnobservedEnds(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	remote := running(0, t0, t0)
	remote.UID = "p1"
	remote.Status.ContainerStatuses[0].ContainerID = "a"
	local := PodStatus(pod(func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }), remote, options)

	drained := remote.DeepCopy()
	drained.Status.Phase, drained.Status.Reason, drained.Status.Message = corev1.PodFailed, "Evicted", "the node was low on memory"
	drained.Status.Conditions = append(drained.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
	drained.Status.Conditions[0].Status = corev1.ConditionFalse
	drained.Status.ContainerStatuses[0].Ready = false
	drained.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143, Reason: "Error", ContainerID: "a", FinishedAt: metav1.NewTime(t0)}}
	drained.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}}}

	if End(remote) != nil {
		t.Error("a pod that runs has an end")
	}
	shadow := &offloadingv1beta1.ShadowPod{Status: offloadingv1beta1.ShadowPodStatus{Phase: corev1.PodFailed, Pod: End(drained)}}
	got, seen := RemoteTerminated(local, shadow, options), PodStatus(local, drained, options)
	if diff := cmp.Diff(seen, got); diff != "" {
		t.Errorf("it is not what one that looked on had seen: %s", diff)
	}
	if again := RemoteTerminated(got, shadow, options); !cmp.Equal(got, again) {
		t.Errorf("it does not settle: %s", cmp.Diff(got, again))
	}
	if c := condition(got, corev1.DisruptionTarget); c == nil || got.Status.ContainerStatuses[0].State.Terminated.ExitCode != 143 || got.Status.Reason != "Evicted" {
		t.Errorf("%+v", got.Status)
	}
}

// TestRefusedResizes reports refused resizes as a kubelet does.
func TestRefusedResizes(t *testing.T) {
	sized := func(p *corev1.Pod, cpu string) *corev1.Pod {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		return p
	}
	t0 := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	small := sized(pod(nil), "1")
	shadow := ShadowPod(small, "shop-rome", options)
	remote := running(0, t0, t0)
	local := PodStatus(sized(pod(nil), "64"), remote, options)
	o := options
	o.Now = t0
	pending := func(p *corev1.Pod) string {
		if c := condition(p, corev1.PodResizePending); c != nil {
			return c.Reason + ": " + c.Message
		}
		return ""
	}
	if got := pending(ShownStatus(local, shadow, remote, "", o)); got != "" {
		t.Errorf("before it was asked: %s", got)
	}
	refused := ShownStatus(local, shadow, remote, "no", o)
	const want = "Infeasible: the provider refused the change of resources: no"
	if got := pending(refused); got != want {
		t.Errorf("refused by the API server: %q", got)
	}
	o.Now = t0.Add(time.Hour)
	if again := ShownStatus(refused, shadow, remote, "", o); !cmp.Equal(refused, again) {
		t.Errorf("it does not stay until it is asked once more: %s", cmp.Diff(refused, again))
	}
	back := refused.DeepCopy()
	back.Spec = small.Spec
	if got := pending(ShownStatus(back, shadow, remote, "", o)); got != "" {
		t.Errorf("taken back here: %s", got)
	}
	taken, _ := ChangeSpec(shadow, local, nil, options)
	if got := pending(ShownStatus(refused, taken.Shadow, remote, "", o)); got != "" {
		t.Errorf("accepted: %s", got)
	}
	taken.Shadow.Status.Pod = &corev1.PodStatus{Conditions: []corev1.PodCondition{ResizeRefused(corev1.PodReasonDeferred, "quota")}}
	full := ShownStatus(local, taken.Shadow, remote, "", o)
	if got := pending(full); got != "Deferred: quota" {
		t.Errorf("refused by the provider's controller: %q", got)
	}
	if again := ShownStatus(full, taken.Shadow, remote, "", o); !cmp.Equal(full, again) {
		t.Errorf("it does not settle: %s", cmp.Diff(full, again))
	}
	byKubelet := remote.DeepCopy()
	byKubelet.Status.Conditions = append(byKubelet.Status.Conditions, ResizeRefused(corev1.PodReasonInfeasible, "Node didn't have enough capacity"))
	if got := pending(ShownStatus(full, taken.Shadow, byKubelet, "", o)); got != "Infeasible: Node didn't have enough capacity" {
		t.Errorf("refused by the kubelet: %q", got)
	}
}
