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

	virtualKubelet := s.Only(rome, api.TenantNamespace("milan"), client.MatchingLabels{api.LabelVirtualNode: "milan"})
	managers := []*corev1.Pod{controllerManager(s, rome), controllerManager(s, milan)}

	kill := func(when string, now func(pods, started int) bool) {
		s.Step("the virtual kubelet and both controller managers die "+when, func() {
			// Look up the processes in advance, so that they can be killed without delay.
			var pids []int
			for _, pod := range append(managers, virtualKubelet) {
				some, err := playground.Processes(pod)
				s.Must(err)
				pids = append(pids, some...)
			}
			if pods, _ := there.SoFar(); pods == 0 {
				s.Must(rome.Create(s.Context(), story.DeploymentOn("milan", ns, "many", count, playground.TestServer)))
			}
			s.Eventually(2*time.Minute, "the moment", func(ctx) error {
				if pods, started := there.SoFar(); !now(pods, started) {
					return fmt.Errorf("milan has %d pods, %d containers have started", pods, started)
				}
				return nil
			})
			pods, started := there.SoFar()
			s.Must(playground.Kill(pids...))
			fmt.Printf("             milan had %d pods, %d containers had started\n", pods, started)
			if started >= count {
				s.Fatal("all containers had started: it was too late for this story")
			}
		})
	}

	began := time.Now()
	kill("while the first pods are made", func(pods, _ int) bool { return pods >= 5 })
	for i, pod := range append(managers, virtualKubelet) {
		s.Eventually(start, pod.Name+" to be back", func(ctx) error {
			now := s.Pod([]*playground.Cluster{rome, milan, rome}[i], pod.Namespace, pod.Name)
			if story.Restarts(*now) == story.Restarts(*pod) || now.Status.ContainerStatuses[0].State.Running == nil {
				return fmt.Errorf("status %+v", now.Status.ContainerStatuses)
			}
			return nil
		})
	}
	kill("while containers start", func(_, started int) bool { return started >= count/5 })
	s.Step("all of them run", func() {
		s.PodsReady(rome, ns, count, 3*time.Minute)
		fmt.Printf("             %.1f s after they were asked for\n", time.Since(began).Seconds())
	})
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
	s.Step("each of ours was restarted twice", func() {
		for i, pod := range append(managers, virtualKubelet) {
			c := []*playground.Cluster{rome, milan, rome}[i]
			var n int32
			// A pod counts as Ready for a moment after it was killed. Kubernetes waits up to 20 s before it restarts a container for the second time.
			s.Eventually(2*start, fmt.Sprintf("pod %s of %s to be restarted twice and Ready", pod.Name, c.ID), func(ctx) error {
				now := s.Pod(c, pod.Namespace, pod.Name)
				if n = story.Restarts(*now) - story.Restarts(*pod); n < 2 || !story.Ready(*now) {
					return fmt.Errorf("%d restarts, status %+v", n, now.Status.ContainerStatuses)
				}
				return nil
			})
			if n != 2 {
				s.Errorf("pod %s of %s was restarted %d times, want twice", pod.Name, c.ID, n)
			}
		}
	})

	// The webhook is unavailable for about 20 s, because this is the third restart of its container. On a machine that needs longer for this many rejections, the
	// container is killed again. Kubernetes doubles its retry delay with each rejected pod, so after this many rejections the delay is 1000 s.
	const late, refusals = "late", 19
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
	s.Step("the pods that were refused run", func() { s.PodsReady(rome, ns, count+3, 90*time.Second) }) // far less than 1000 s
}

func controllerManager(s *story.Story, c *playground.Cluster) *corev1.Pod {
	s.Helper()
	return s.Only(c, api.Namespace, client.MatchingLabels{"app.kubernetes.io/component": "controller-manager"})
}
