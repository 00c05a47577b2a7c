package offload

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

// TestRevokedAccess drains the tenant: the provider responds and denies every read of the remote namespace.
func TestRevokedAccess(t *testing.T) {
	shadow := shadowFor(localPod("u1", nil), "s1", nil)
	running := localPod("u1", labelled)
	dying := localPod("u1", func(p *corev1.Pod) { labelled(p); deleting(p) })
	for _, row := range []struct {
		what   string
		local  *corev1.Pod
		shadow *offloadingv1beta1.ShadowPod
		synced bool
		passed time.Duration
		// action is the expected action of the step, reason the expected reason in the Pod that it writes.
		action Action
		reason string
		again  bool
	}{
		{"deleted ShadowPod, at first", running, nil, true, 0, Nothing, "", true},
		{"deleted ShadowPod", running, nil, true, revokedGrace, PatchLocalStatus, offloadingv1beta1.PodOffloadingAborted, false},
		{"ShadowPod still there", running, shadow, true, time.Hour, Nothing, "", true},
		{"unknown ShadowPod, at first", running, nil, false, time.Second, Nothing, "", true},
		{"unknown ShadowPod, not ready", running, nil, false, revokedGrace, PatchLocalStatus, "", true},
		{"unknown ShadowPod, in the end", running, nil, false, revokedLimit, PatchLocalStatus, offloadingv1beta1.PodOffloadingAborted, false},
		{"new pod, at first", localPod("u1", nil), nil, false, time.Second, Nothing, "", true},
		{"new pod", localPod("u1", nil), nil, false, revokedGrace, PatchLocalStatus, offloadingv1beta1.PodOffloadingBackOff, false},
		{"pod being deleted, at first", dying, nil, false, revokedGrace, Nothing, "", true},
		{"pod being deleted, in the end", dying, nil, false, revokedLimit, DeleteLocal, "", false},
		{"finished pod", localPod("u1", phase2(corev1.PodSucceeded, "")), nil, false, time.Hour, Nothing, "", true},
		{"orphaned ShadowPod", nil, shadow, true, time.Hour, Nothing, "", true},
	} {
		t.Run(row.what, func(t *testing.T) {
			env := Env{Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, RemoteSynced: row.synced, Now: stepNow, RefusedSince: stepNow.Add(-row.passed), Pod: stepPod}
			step := Next(row.local, row.shadow, nil, env)
			if step.Action != row.action || step.Confirm || (step.After > 0) != row.again {
				t.Fatalf("%s, %+v", step.Action, step)
			}
			pod, _ := step.Object.(*corev1.Pod)
			if row.reason == "" || pod == nil {
				return
			}
			if pod.Status.Reason != row.reason || !strings.Contains(step.Warning, "drained") || !strings.Contains(pod.Status.Message, "liqoctl activate tenant rome") {
				t.Errorf("reason %s, message %q, warning %q", pod.Status.Reason, pod.Status.Message, step.Warning)
			}
			env.Now = env.Now.Add(time.Hour)
			if again := Next(pod, row.shadow, nil, env); again.Action != Nothing {
				t.Errorf("it does not settle: %+v", again)
			}
		})
	}
	if unready := Next(running, nil, nil, Env{Mapping: Mapping{State: Mapped, Namespace: "x"}, Now: stepNow, RefusedSince: stepNow.Add(-revokedGrace), Pod: stepPod}); unready.Object.(*corev1.Pod).Labels[podrules.LabelRemoteUnavailable] != "true" {
		t.Error("a pod of which nothing is known is ready")
	}
}

// TestADrainIsReportedAtOnce: if the provider reports that it drained the tenant, no pod waits for the refusal to last.
func TestADrainIsReportedAtOnce(t *testing.T) {
	shadow := shadowFor(localPod("u1", nil), "s1", nil)
	running, fresh := localPod("u1", labelled), localPod("u1", nil)
	dying := localPod("u1", func(p *corev1.Pod) { labelled(p); deleting(p) })
	for _, row := range []struct {
		what   string
		local  *corev1.Pod
		shadow *offloadingv1beta1.ShadowPod
		synced bool
		passed time.Duration
		action Action
		reason string
	}{
		{"deleted ShadowPod", running, nil, true, 0, PatchLocalStatus, offloadingv1beta1.PodOffloadingAborted},
		{"ShadowPod that is about to be deleted", running, shadow, true, 0, PatchLocalStatus, offloadingv1beta1.PodOffloadingAborted},
		{"unknown ShadowPod", running, nil, false, 0, PatchLocalStatus, offloadingv1beta1.PodOffloadingAborted},
		{"new pod", fresh, nil, true, 0, PatchLocalStatus, offloadingv1beta1.PodOffloadingBackOff},
		{"new pod, after a restart", fresh, nil, false, 0, PatchLocalStatus, offloadingv1beta1.PodOffloadingBackOff},
		{"pod being deleted, at first", dying, nil, false, 0, Nothing, ""},
		{"pod being deleted", dying, nil, false, revokedGrace, DeleteLocal, ""},
		{"finished pod", localPod("u1", phase2(corev1.PodSucceeded, "")), nil, false, 0, Nothing, ""},
		{"orphaned ShadowPod", nil, shadow, true, 0, Nothing, ""},
	} {
		t.Run(row.what, func(t *testing.T) {
			env := Env{
				Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, RemoteSynced: row.synced, Now: stepNow, RefusedSince: stepNow.Add(-row.passed), Drained: true, Pod: stepPod,
			}
			step := Next(row.local, row.shadow, nil, env)
			if step.Action != row.action || step.Confirm {
				t.Fatalf("%s, %+v", step.Action, step)
			}
			if row.reason == "" {
				return
			}
			pod := step.Object.(*corev1.Pod)
			if pod.Status.Reason != row.reason || !strings.Contains(pod.Status.Message, "drained or removed the tenant of cluster rome") || !strings.Contains(pod.Status.Message, "liqoctl activate tenant rome") {
				t.Errorf("reason %s, message %q", pod.Status.Reason, pod.Status.Message)
			}
			if again := Next(pod, row.shadow, nil, env); again.Action != Nothing {
				t.Errorf("it does not settle: %+v", again)
			}
		})
	}
}

// TestTheEndOfARemotePodIsConfirmed: an offloaded pod becomes not ready because its remote pod terminates, or is gone, only after a read that could show a drain.
// If the provider refuses this read and reports no drain, the pod is not ready a few seconds later.
func TestTheEndOfARemotePodIsConfirmed(t *testing.T) {
	local := localPod("u1", func(p *corev1.Pod) {
		labelled(p)
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	shadow := shadowFor(local, "s1", nil)
	for what, remote := range map[string]*corev1.Pod{
		"terminating": remoteFor(shadow, func(p *corev1.Pod) { remoteRuns(p); deleting(p) }), "gone": nil,
	} {
		env := Env{Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, RemoteSynced: true, Now: stepNow, Pod: stepPod}
		step := Next(local, shadow, remote, env)
		shown, _ := step.Object.(*corev1.Pod)
		if step.Action != PatchLocalStatus || !step.Confirm || ready(shown) || shown.Status.Phase != corev1.PodRunning {
			t.Fatalf("%s: %s, %+v", what, step.Action, step)
		}
		if again := Next(shown, shadow, remote, env); again.Action != Nothing || again.Confirm {
			t.Errorf("%s: it does not settle: %+v", what, again)
		}
		env.RefusedSince = stepNow.Add(-time.Second)
		if step := Next(local, shadow, remote, env); step.Action != Nothing || step.After != drainRecheck {
			t.Errorf("%s, refused: %s, %+v", what, step.Action, step)
		}
		env.RefusedSince = stepNow.Add(-drainRecheck)
		if step := Next(local, shadow, remote, env); step.Action != PatchLocalStatus || step.Confirm || ready(step.Object.(*corev1.Pod)) {
			t.Errorf("%s, refused without a drain: %s, %+v", what, step.Action, step)
		}
	}
}
