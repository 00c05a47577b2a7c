package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// crash: all of Liqo's processes are killed while 30 pods are being started. All of these pods run in the end, and none of them twice. Pods that were rejected
// while no webhook responded are created soon after.
func crash(s *story.Story) {
	const ns, count = "crash", 30
	rome, milan := s.Rome, s.Milan
	twin := story.Twin(ns)
	s.Step("offload a namespace", func() { s.Offload(ns) })
	here, there := s.Record(rome, ns), s.Record(milan, twin)

	ours := processes(s)
	began := time.Now()
	ours.killWhile("while the first pods are made", ns, count, there, func(pods, _ int) bool { return pods >= 5 })
	ours.restarted()
	ours.killWhile("while containers start", ns, count, there, func(_, started int) bool { return started >= count/5 })
	s.Step("all of them run", func() {
		s.PodsReady(rome, ns, count, 3*time.Minute)
		fmt.Printf("             %.1f s after they were asked for\n", time.Since(began).Seconds())
	})
	onceEach(s, ns, count, here, there)
	s.Step("each of ours runs", ours.ready)

	// The webhook is unavailable for about 20 s, because this is the third restart of its container. On a machine that needs longer for this many rejections, the
	// container is killed again. Kubernetes doubles its retry delay with each rejected pod, so after this many rejections the delay is 160 s.
	const late, refusals = "late", 16
	manager := controllerManager(s, rome)
	restarts := story.Restarts(*manager) // before it was killed last
	s.Step("rome's controller manager dies, and pods are asked for before it is back", func() {
		pids, err := playground.Processes(manager)
		s.Must(err)
		s.Must(playground.Kill(pids...))
		s.Must(rome.Create(s.Context(), story.DeploymentOn("milan", ns, late, 3, playground.TestServer)))
		tries := 0
		s.Eventually(3*start, fmt.Sprintf("%d refusals", refusals), func(ctx context.Context) error {
			var sets appsv1.ReplicaSetList
			if err := rome.List(ctx, &sets, client.InNamespace(ns), client.MatchingLabels{"app": late}); err != nil {
				return err
			}
			if len(sets.Items) != 1 {
				return fmt.Errorf("%d ReplicaSets", len(sets.Items))
			}
			// Each of these changes triggers another attempt, as each change of one of the pods would.
			for range 5 {
				tries++
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"tries":"%d"}}}`, tries)
				if err := rome.Patch(ctx, &sets.Items[0], client.RawPatch(types.MergePatchType, patch)); err != nil {
					return err
				}
			}
			var events corev1.EventList
			if err := rome.List(ctx, &events, client.InNamespace(ns)); err != nil {
				return err
			}
			var refused int32
			for _, e := range events.Items {
				if e.Reason == "FailedCreate" && e.InvolvedObject.Name == sets.Items[0].Name {
					refused += e.Count
				}
			}
			if refused < refusals {
				if now := s.Pod(rome, manager.Namespace, manager.Name); story.Restarts(*now) > restarts && now.Status.ContainerStatuses[0].State.Running != nil {
					restarts = story.Restarts(*now)
					pids, err := playground.Container(now, now.Status.ContainerStatuses[0].Name)
					if err != nil {
						return err
					}
					s.Must(playground.Kill(pids...))
				}
				return fmt.Errorf("%d refusals, the ReplicaSet has %d pods", refused, sets.Items[0].Status.Replicas)
			}
			return nil
		})
	})
	s.Step("it is back", func() {
		s.Eventually(3*time.Minute, manager.Name+" to be back", func(ctx context.Context) error {
			now := s.Pod(rome, manager.Namespace, manager.Name)
			if story.Restarts(*now) == restarts || !story.Ready(*now) {
				return fmt.Errorf("status %+v", now.Status.ContainerStatuses)
			}
			return nil
		})
	})
	s.Step("the pods that were refused run", func() { s.PodsReady(rome, ns, count+3, 90*time.Second) }) // less than 160 s
}

// killed are pods of Liqo that a story kills, and the clusters of each.
type killed struct {
	*story.Story
	pods     []*corev1.Pod
	clusters []*playground.Cluster
}

// processes returns the virtual kubelet of node milan and both controller managers, as they are before the first of them is killed.
func processes(s *story.Story) *killed {
	s.Helper()
	kubelet := s.Only(s.Rome, api.TenantNamespace("milan"), client.MatchingLabels{api.LabelVirtualNode: "milan"})
	return &killed{s, []*corev1.Pod{kubelet, controllerManager(s, s.Rome), controllerManager(s, s.Milan)}, []*playground.Cluster{s.Rome, s.Rome, s.Milan}}
}

// killWhile kills all of them as soon as now is true. It creates the pods that they are busy with, unless there are some already.
func (k *killed) killWhile(when, ns string, count int, there *story.Recorder, now func(pods, started int) bool) {
	k.Helper()
	k.Step("the virtual kubelet and both controller managers die "+when, func() {
		// Look up the processes in advance, so that they can be killed without delay.
		var pids []int
		for _, pod := range k.pods {
			some, err := playground.Processes(pod)
			k.Must(err)
			pids = append(pids, some...)
		}
		if pods, _ := there.SoFar(); pods == 0 {
			k.Must(k.Rome.Create(k.Context(), story.DeploymentOn("milan", ns, "many", int32(count), playground.TestServer)))
		}
		k.Eventually(2*time.Minute, "the moment", func(ctx) error {
			if pods, started := there.SoFar(); !now(pods, started) {
				return fmt.Errorf("milan has %d pods, %d containers have started", pods, started)
			}
			return nil
		})
		pods, started := there.SoFar()
		k.Must(playground.Kill(pids...))
		fmt.Printf("             milan had %d pods, %d containers had started\n", pods, started)
		if started >= count {
			fmt.Println("             that was too late: this kill proves nothing")
		}
	})
}

// restarted waits until each of them was restarted and runs.
func (k *killed) restarted() {
	k.Helper()
	for i, pod := range k.pods {
		k.Eventually(start, pod.Name+" to be back", func(ctx) error {
			now := k.Pod(k.clusters[i], pod.Namespace, pod.Name)
			if story.Restarts(*now) == story.Restarts(*pod) || now.Status.ContainerStatuses[0].State.Running == nil {
				return fmt.Errorf("status %+v", now.Status.ContainerStatuses)
			}
			return nil
		})
	}
}

// ready waits until each of them was restarted and is Ready. Kubernetes waits up to 20 s before it restarts a container for the second time.
func (k *killed) ready() {
	k.Helper()
	for i, pod := range k.pods {
		k.Eventually(start, fmt.Sprintf("pod %s of %s to be restarted and Ready", pod.Name, k.clusters[i].ID), func(ctx) error {
			now := k.Pod(k.clusters[i], pod.Namespace, pod.Name)
			if story.Restarts(*now) == story.Restarts(*pod) || !story.Ready(*now) {
				return fmt.Errorf("status %+v", now.Status.ContainerStatuses)
			}
			return nil
		})
	}
}

// onceEach checks that each of these pods has run in milan once, and that rome shows it as such.
func onceEach(s *story.Story, ns string, count int, here, there *story.Recorder) {
	s.Helper()
	rome, milan, twin := s.Rome, s.Milan, story.Twin(ns)
	s.Step("none ran twice", func() {
		same(s, s.Pods(rome, ns), s.PodsReady(milan, twin, count, start))
		if got := there.Pods(); len(got) != count || len(slices.Compact(got)) != count {
			s.Errorf("milan has seen %d pods, want each of %d once: %v", len(got), count, got)
		}
		if got := there.Started(); got != count {
			s.Errorf("milan has seen %d containers start, want %d", got, count)
		}
		if got := here.Pods(); len(got) != count {
			s.Errorf("rome has seen %d pods, want %d", len(got), count)
		}
		for _, pod := range s.Pods(rome, ns) {
			if n := story.Restarts(pod); n != 0 {
				s.Errorf("rome's pod %s counts %d restarts", pod.Name, n)
			}
		}
	})
}

func controllerManager(s *story.Story, c *playground.Cluster) *corev1.Pod {
	s.Helper()
	return s.Only(c, api.Namespace, client.MatchingLabels{"app.kubernetes.io/component": "controller-manager"})
}
