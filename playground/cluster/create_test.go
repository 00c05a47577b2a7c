package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/playground/component"
)

// TestLongWaitsAreReported: a step that takes long is reported with the condition that is missing, even if it succeeds in the end.
func TestLongWaitsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reports []string
		m := Machine{Report: func(format string, args ...any) { reports = append(reports, fmt.Sprintf(format, args...)) }}
		state := State{Cluster: component.Cluster{Name: "rome"}}
		began := time.Now()
		ask := func(context.Context) error {
			if time.Since(began) < 70*time.Second {
				return errors.New("coredns is not available")
			}
			return nil
		}
		if err := m.wait(t.Context(), state, "nodes and services", ask, func(context.Context) string { return "pod coredns-1 is Pending" }); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"still waiting for nodes and services of rome after 30 s: coredns is not available: pod coredns-1 is Pending",
			"still waiting for nodes and services of rome after 60 s: coredns is not available: pod coredns-1 is Pending",
		}
		if !slices.Equal(reports, want) {
			t.Errorf("reports %q, want %q", reports, want)
		}

		reports, began = nil, time.Now()
		if err := m.wait(t.Context(), state, "the API server", func(context.Context) error {
			if time.Since(began) < 29*time.Second {
				return errors.New("not yet")
			}
			return nil
		}, nil); err != nil || len(reports) > 0 {
			t.Errorf("%v, reports of a short wait: %q", err, reports)
		}

		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("not ready after 1s"))
		defer cancel()
		err := m.wait(ctx, state, "nodes and services", func(context.Context) error { return errors.New("coredns is not available") },
			func(ctx context.Context) string { return fmt.Sprintf("asked in time: %v", ctx.Err() == nil) })
		if err == nil || !strings.HasSuffix(err.Error(), "not ready after 1s: coredns is not available: asked in time: true") {
			t.Errorf("error %v", err)
		}

		done := m.overdue("node rome-1 to start")
		time.Sleep(65 * time.Second)
		done()
		time.Sleep(time.Minute)
		if want := []string{"still waiting for node rome-1 to start after 30 s", "still waiting for node rome-1 to start after 60 s"}; !slices.Equal(reports, want) {
			t.Errorf("reports %q, want %q", reports, want)
		}
	})
}

// TestUnsettledNamesTheCause: the text names each condition that a node or a pod lacks, with its reason.
func TestUnsettledNamesTheCause(t *testing.T) {
	since := metav1.NewTime(time.Date(2000, 1, 1, 12, 0, 0, 0, time.Local))
	answers := map[string]any{
		"/api/v1/nodes": corev1.NodeList{Items: []corev1.Node{{
			ObjectMeta: metav1.ObjectMeta{Name: "rome-1"},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule}}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "cni plugin not initialized"},
			}},
		}, {ObjectMeta: metav1.ObjectMeta{Name: "rome-2"}}}},
		"/apis/apps/v1/namespaces/kube-system/deployments/coredns": appsv1.Deployment{
			Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}}},
			Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: "MinimumReplicasUnavailable", Message: "too few"},
			}},
		},
		"/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app%3Dkube-dns": corev1.PodList{Items: []corev1.Pod{{
			ObjectMeta: metav1.ObjectMeta{Name: "coredns-1"},
			Status: corev1.PodStatus{
				Phase: corev1.PodPending,
				Conditions: []corev1.PodCondition{
					{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
					{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "not ready: [coredns]", LastTransitionTime: since},
				},
				ContainerStatuses: []corev1.ContainerStatus{{
					Name: "coredns", RestartCount: 5,
					State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s"}},
				}},
			},
		}}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, found := answers[r.URL.String()]
		if !found {
			http.Error(w, "no "+r.URL.String(), http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer server.Close()
	c := &client{server.Client(), server.URL}
	want := "node rome-1: Ready is False: KubeletNotReady: cni plugin not initialized, taint node.kubernetes.io/not-ready:NoSchedule; node rome-2 has no condition yet; " +
		"deployment coredns: Available is False: MinimumReplicasUnavailable: too few; deployment coredns has 1 pods; " +
		"pod coredns-1 is Pending, Ready is False since 12:00:00: ContainersNotReady: not ready: [coredns], " +
		"container coredns waits: CrashLoopBackOff: back-off 5m0s, container coredns was restarted 5 times"
	if got := c.unsettled(t.Context(), State{Cluster: rome()}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
