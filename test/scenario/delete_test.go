package scenario

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

type ctx = context.Context

// deleteBothWays: objects deleted in rome are deleted in milan too. Objects deleted in milan are recreated, because they still exist in rome.
func deleteBothWays(s *story.Story) {
	const ns = "delete"
	rome, milan := s.Rome, s.Milan
	twin := story.Twin(ns)
	s.Step("offload a namespace", func() { s.Offload(ns) })

	deployment := story.DeploymentOn("milan", ns, "web", 3, playground.TestServer)
	s.Step("three replicas", func() {
		s.Must(rome.Create(s.Context(), deployment))
		s.PodsReady(rome, ns, 3, start)
		s.PodsReady(milan, twin, 3, start)
	})

	s.Step("deleting a pod in rome removes it in milan, and its successor runs", func() {
		victim := s.Pods(rome, ns)[0]
		s.Must(rome.Delete(s.Context(), &victim))
		s.Gone(rome, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: victim.Name}}, start)
		s.Gone(milan, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: twin, Name: victim.Name}}, start)
		same(s, s.PodsReady(rome, ns, 3, start), s.PodsReady(milan, twin, 3, start))
	})

	s.Step("deleting a pod in milan brings it back, and rome keeps its own", func() {
		here := s.Pods(rome, ns)[0]
		there := s.Pod(milan, twin, here.Name)
		s.Must(milan.Delete(s.Context(), there))
		s.Eventually(start, "another pod of that name to run in milan", func(ctx) error {
			pods := s.Pods(milan, twin)
			i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == here.Name })
			if i < 0 || pods[i].UID == there.UID || !story.Ready(pods[i]) {
				return fmt.Errorf("milan has %v", story.Names(pods))
			}
			return nil
		})
		back := s.Pod(milan, twin, here.Name)
		s.Eventually(start, "rome to show the new one", func(ctx) error {
			now := s.Pod(rome, ns, here.Name)
			if now.UID != here.UID {
				s.Fatalf("rome's pod was replaced: its UID was %s and is %s", here.UID, now.UID)
			}
			if !story.Ready(*now) || !slices.Equal(story.Containers(*now), story.Containers(*back)) {
				return fmt.Errorf("containers %v, want %v", story.Containers(*now), story.Containers(*back))
			}
			return nil
		})
		if n := story.Restarts(*s.Pod(rome, ns, here.Name)); n != 1 {
			s.Errorf("rome counts %d restarts, want the one that the new pod stands for", n)
		}
		same(s, s.PodsReady(rome, ns, 3, start), s.PodsReady(milan, twin, 3, start))
	})

	s.Step("scaling to one and to none", func() {
		for _, replicas := range []int{1, 0} {
			scale, err := rome.Set.AppsV1().Deployments(ns).GetScale(s.Context(), "web", metav1.GetOptions{})
			s.Must(err)
			scale.Spec.Replicas = int32(replicas)
			_, err = rome.Set.AppsV1().Deployments(ns).UpdateScale(s.Context(), "web", scale, metav1.UpdateOptions{})
			s.Must(err)
			same(s, s.PodsReady(rome, ns, replicas, start), s.PodsReady(milan, twin, replicas, start))
		}
	})

	s.Step("a pod that ends is Succeeded, and one that fails is Failed, in rome too", func() {
		for name, code := range map[string]string{"good": "0", "bad": "5"} {
			pod := story.PodOn("milan", ns, name, playground.TestServer, "/testserver", "exit", code)
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			s.Must(rome.Create(s.Context(), pod))
		}
		for name, want := range map[string]corev1.PodPhase{"good": corev1.PodSucceeded, "bad": corev1.PodFailed} {
			s.Eventually(start, name+" to be "+string(want), func(ctx) error {
				if got := s.Pod(rome, ns, name).Status.Phase; got != want {
					return fmt.Errorf("it is %s", got)
				}
				return nil
			})
		}
		bad := s.Pod(rome, ns, "bad")
		if got := bad.Status.ContainerStatuses[0].State.Terminated; got == nil || got.ExitCode != 5 {
			s.Errorf("bad ended with %+v, want exit code 5", got)
		}
	})
}

// same checks that rome and milan have the same pods.
func same(s *story.Story, here, there []corev1.Pod) {
	s.Helper()
	if !slices.Equal(story.Names(here), story.Names(there)) {
		s.Errorf("rome has the pods %v, milan has %v", story.Names(here), story.Names(there))
	}
}
