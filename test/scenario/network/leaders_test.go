package network

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// The leases of rome, where every component has two replicas, and the labels of the candidates for each lease.
var elected = []struct {
	namespace, lease string
	labels           client.MatchingLabels
}{
	{api.Namespace, "66cf253f.ctrlmgr.liqo.io", client.MatchingLabels{"app.kubernetes.io/name": "controller-manager"}},
	{api.TenantNamespace("milan"), "milan", client.MatchingLabels{api.LabelVirtualNode: "milan"}},
}

// A lease lasts 15 s. Kubernetes detects after about a minute that a node has no power. Until then, Services still route requests to the pods there. The gaps
// are how much longer than usual it may take until a new pod runs.
const (
	killedGap    = 30 * time.Second
	powerlessGap = 60 * time.Second
)

// leaders: rome's leaders are killed, and then their node loses its power. Peering and offloading continue to work.
func leaders(s *story.Story) {
	rome, worker := s.Rome, s.Rome.Worker(2)
	first := "leaders"
	var usual time.Duration
	s.Shares(crowd)
	s.Step("rome has two of each", func() {
		pairs(s)
		s.Offload(first)
		s.Must(rome.Create(s.Context(), story.PodOn("milan", first, "old", playground.TestServer)))
		s.PodReady(rome, first, "old", start)
	})
	old := *s.Pod(s.Milan, story.Twin(first), "old")
	s.Step("a namespace and a pod, as long as nothing happens", func() { usual = works(s, "leaders-usual", 2*start) })

	s.Step("those at work are killed", func() {
		for _, e := range elected {
			pids, err := playground.Processes(leader(s, e.namespace, e.lease))
			s.Must(err)
			s.Must(playground.Kill(pids...))
		}
		works(s, "leaders-killed", killedGap+usual)
		pairs(s)
	})
	s.Step("those at work are on "+worker, func() {
		for _, e := range elected {
			s.Eventually(2*time.Minute, "the holder of "+e.lease+" to be on "+worker, func(ctx context.Context) error {
				at := leader(s, e.namespace, e.lease)
				if at.Spec.NodeName == worker {
					return nil
				}
				pairs(s)
				return fmt.Errorf("it was %s on %s: %w", at.Name, at.Spec.NodeName, s.Rome.Delete(ctx, at, client.GracePeriodSeconds(0)))
			})
		}
		pairs(s)
	})
	var dark []*corev1.Pod
	s.Step("no power for "+worker, func() {
		for _, e := range elected {
			dark = append(dark, leader(s, e.namespace, e.lease))
		}
		_, err := s.Playground(s.Context(), "kill", "node", worker)
		s.Must(err)
		s.Cleanup(func() { _, _ = s.Playground(background(s), "start", "node", worker) })
		works(s, "leaders-dark", powerlessGap+usual)
		_, err = s.Liqoctl(s.Context(), "create", "resourceslice", "dark", "--remote-cluster-id", "naples", "--cpu", "100m", "--memory", "64Mi",
			"--no-virtual-node", "--kubeconfig", rome.Kubeconfig, "--timeout", "60s")
		s.Must(err)
		slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace("naples"), Name: "dark"}}
		s.Must(rome.Delete(s.Context(), slice))
		s.Gone(rome, slice, start)
		s.NodeReady("milan", true, start)
	})
	s.Step("power for "+worker, func() {
		_, err := s.Playground(s.Context(), "start", "node", worker)
		s.Must(err)
		ready(s, rome, worker)
		// Until the node reports its status again, its pods are shown in their former state.
		for _, before := range dark {
			s.Eventually(2*time.Minute, before.Name+" to run again", func(ctx context.Context) error {
				var now corev1.Pod
				if err := rome.Get(ctx, client.ObjectKeyFromObject(before), &now); err != nil {
					return err
				}
				if !story.Ready(now) || story.Restarts(now) <= story.Restarts(*before) {
					return fmt.Errorf("Ready: %t, %d restarts", story.Ready(now), story.Restarts(now))
				}
				return nil
			})
		}
		pairs(s)
		for _, peer := range []string{"milan", "naples"} {
			standing(s, rome, peer)
		}
	})
	if now := s.PodReady(s.Milan, story.Twin(first), "old", start); now.UID != old.UID || story.Restarts(*now) != 0 || !slices.Equal(story.Containers(*now), story.Containers(old)) {
		s.Errorf("the pod that ran all the time was touched: %+v, before %+v", now.Status, old.Status)
	}
}

// leader returns the pod that holds a lease.
func leader(s *story.Story, namespace, name string) *corev1.Pod {
	s.Helper()
	var pod corev1.Pod
	s.Eventually(time.Minute, "somebody to hold lease "+name, func(ctx context.Context) error {
		var lease coordinationv1.Lease
		if err := s.Rome.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &lease); err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil {
			return fmt.Errorf("nobody does")
		}
		holder, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		return s.Rome.Get(ctx, client.ObjectKey{Namespace: namespace, Name: holder}, &pod)
	})
	return &pod
}

// pairs waits until there are two running candidates for each lease.
func pairs(s *story.Story) {
	s.Helper()
	for _, e := range elected {
		s.Eventually(2*time.Minute, "two to compete for "+e.lease, func(ctx context.Context) error {
			var pods corev1.PodList
			if err := s.Rome.List(ctx, &pods, client.InNamespace(e.namespace), e.labels); err != nil {
				return err
			}
			if len(pods.Items) != 2 || !story.Ready(pods.Items[0]) || !story.Ready(pods.Items[1]) {
				return fmt.Errorf("there are %v", story.Names(pods.Items))
			}
			return nil
		})
	}
}

// works offloads another namespace of rome, runs a pod of it in milan, and returns how long this took.
func works(s *story.Story, ns string, within time.Duration) time.Duration {
	s.Helper()
	began := time.Now()
	s.Namespace(ns, nil)
	s.Eventually(within, "a namespace to be offloaded", func(ctx context.Context) error {
		_, err := s.Liqoctl(ctx, "offload", "namespace", ns, "--kubeconfig", s.Rome.Kubeconfig, "--timeout", "10s")
		return err
	})
	offloaded := time.Since(began)
	pod := story.PodOn("milan", ns, "new", playground.TestServer)
	s.Eventually(within, "a pod to be taken", func(ctx context.Context) error {
		if err := s.Rome.Create(ctx, pod.DeepCopy()); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
	taken := time.Since(began)
	s.PodReady(s.Rome, ns, "new", within)
	took := time.Since(began)
	fmt.Printf("             a namespace was offloaded after %.1f s, its pod was taken after %.1f s and ran after %.1f s\n",
		offloaded.Seconds(), taken.Seconds(), took.Seconds())
	if took > within {
		s.Errorf("it took %v until a pod ran in milan, and must not take longer than %v", took, within)
	}
	return took
}
