package podrules

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTimesOfAnotherClock: times of a pod are plausible for the consumer even if the provider's clock is wrong.
func TestTimesOfAnotherClock(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, skew := range map[string]time.Duration{"right": 0, "ahead": 10 * time.Minute, "behind": -10 * time.Minute, "years ahead": 5 * 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			now := t0
			there := func() metav1.Time { return metav1.NewTime(now.Add(skew)) }
			local := pod(func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(t0) })
			show := func(remote *corev1.Pod) {
				t.Helper()
				o := options
				o.Now = now.Add(300 * time.Millisecond)
				local = PodStatus(local, remote, o)
				o.Now = o.Now.Add(time.Hour)
				if again := PodStatus(local, remote, o); !cmp.Equal(local, again) {
					t.Fatalf("it is written for a clock alone: %s", cmp.Diff(local, again))
				}
				for _, c := range local.Status.Conditions {
					if c.LastTransitionTime.After(now) || c.LastTransitionTime.Time.Before(t0) {
						t.Errorf("%s: condition %s since %s, it is %s", name, c.Type, c.LastTransitionTime, now)
					}
				}
				for _, c := range local.Status.ContainerStatuses {
					times := []metav1.Time{}
					if c.State.Running != nil {
						times = append(times, c.State.Running.StartedAt)
					}
					for _, ended := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
						if ended != nil {
							times = append(times, ended.StartedAt, ended.FinishedAt)
							if ended.FinishedAt.Before(&ended.StartedAt) {
								t.Errorf("finished before it started: %+v", ended)
							}
						}
					}
					for _, at := range times {
						if at.After(now) || at.Time.Before(t0) {
							t.Errorf("container at %s, it is %s", at, now)
						}
					}
				}
			}
			now = now.Add(5 * time.Second)
			remote := running(0, t0, now.Add(skew))
			remote.Status.Conditions[0].LastTransitionTime, remote.Status.Conditions[1].LastTransitionTime = there(), there()
			remote.Status.ContainerStatuses[0].ContainerID = "a"
			remote.Status.ContainerStatuses[0].State.Running.StartedAt = there()
			show(remote)
			readySince := condition(local, corev1.PodReady).LastTransitionTime
			if !readySince.Time.Equal(now) {
				t.Errorf("ready since %s, not %s", readySince, now)
			}
			started := local.Status.ContainerStatuses[0].State.Running.StartedAt

			now = now.Add(time.Minute)
			remote.Status.PodIP = "10.1.0.10" // something else changes
			show(remote)
			if again := condition(local, corev1.PodReady).LastTransitionTime; again != readySince {
				t.Errorf("ready since %s, it was %s", again, readySince)
			}

			now = now.Add(time.Minute)
			remote.Status.Conditions[0].Status, remote.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, there()
			c := &remote.Status.ContainerStatuses[0]
			c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ContainerID: "a", StartedAt: c.State.Running.StartedAt, FinishedAt: there(), ExitCode: 2}
			c.ContainerID, c.RestartCount, c.State.Running.StartedAt = "b", 1, there()
			show(remote)
			if since := condition(local, corev1.PodReady).LastTransitionTime; !since.Time.Equal(now) {
				t.Errorf("not ready since %s, not %s", since, now)
			}
			if was := local.Status.ContainerStatuses[0].LastTerminationState.Terminated.StartedAt; was != started {
				t.Errorf("it had started at %s, not %s", started, was)
			}

			now = now.Add(time.Minute)
			next := remote.DeepCopy()
			next.UID = "p2"
			next.Status.Conditions[1].LastTransitionTime = there()
			show(next)
			if since := condition(local, corev1.ContainersReady).LastTransitionTime; !since.Time.Equal(now) {
				t.Errorf("another remote pod is ready since %s, not %s", since, now)
			}
		})
	}
}
