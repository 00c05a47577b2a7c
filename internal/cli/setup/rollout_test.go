package setup

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/kube"
)

func waitingPod(name, reason string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name, Labels: map[string]string{"app.kubernetes.io/part-of": "liqo", "app": "fabric"}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "fabric", Image: "registry/fabric:0.0.0-dev",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "manifest unknown"}},
		}}},
	}
}

// TestStuckPodsAreNamedAtOnce: while the installation waits, an image that cannot be pulled is reported once for all pods, with reason, message and
// cure.
func TestStuckPodsAreNamedAtOnce(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		c := testCluster(waitingPod("fabric-a", "ErrImagePull"), waitingPod("fabric-b", "ImagePullBackOff"), waitingPod("fabric-c", "ContainerCreating"))
		c.Namespace, c.Console = "liqo", console.New(&out, &out, false)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		reportStuck(ctx, c)
	})
	want := "Image registry/fabric:0.0.0-dev can not be pulled: container fabric of pod fabric-a in namespace liqo is waiting, ErrImagePull: manifest unknown"
	if said := out.String(); !strings.Contains(said, want) || strings.Count(said, "WARN") != 1 {
		t.Errorf("no %q, once, in %s", want, said)
	}
	if said := out.String(); strings.Count(said, "liqoctl install --set registry=HOST/PATH") != 1 {
		t.Errorf("no cure, once, in %s", said)
	}
}

// TestFailedRolloutNamesTheCure: an installation that fails because its nodes cannot pull images says how to name another registry, and no other
// failure does.
func TestFailedRolloutNamesTheCure(t *testing.T) {
	for reason, cured := range map[string]bool{"ImagePullBackOff": true, "ErrImageNeverPull": true, "CrashLoopBackOff": false} {
		set := &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-fabric"},
			Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "fabric"}}},
			Status:     appsv1.DaemonSetStatus{DesiredNumberScheduled: 1},
		}
		c := &session.Cluster{Console: console.New(io.Discard, io.Discard, false), ID: "rome", Namespace: "liqo"}
		c.WithWatch = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(set, waitingPod("fabric-a", reason)).
			WithIndex(&appsv1.DaemonSet{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
			WithInterceptorFuncs(interceptor.Funcs{
				// No controller changes the DaemonSet here.
				Watch: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				},
			}).Build()
		var err error
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = rolledOut(ctx, c, nil, []installer.Workload{{Kind: "DaemonSet", Name: "liqo-fabric"}})
		})
		if err == nil || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), "liqoctl install --set registry=HOST/PATH") != cured {
			t.Errorf("%s: the cure is named: want %v, in %v", reason, cured, err)
		}
	}
}

func TestDaemonSetAvailable(t *testing.T) {
	status := func(desired, updated, available int32) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: desired, UpdatedNumberScheduled: updated, NumberAvailable: available}}
	}
	for _, test := range []struct {
		set  *appsv1.DaemonSet
		lost int32
		want session.Verdict
	}{
		{status(3, 3, 3), 0, session.Yes()},
		{status(3, 2, 2), 1, session.Yes()},
		{status(3, 2, 3), 0, session.NotYet("2 of 3 pods are of the new version")},
		{status(3, 3, 1), 1, session.NotYet("1 of 2 pods are available")},
		{&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Generation: 2}}, 0, session.NotYet("Kubernetes has not observed its new version")},
	} {
		if got := daemonSetAvailable(test.set, test.lost); got != test.want {
			t.Errorf("%+v, %d lost: %+v, want %+v", test.set.Status, test.lost, got, test.want)
		}
	}
}

func testCluster(objects ...client.Object) *session.Cluster {
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objects...).Build()
	return &session.Cluster{WithWatch: c, Console: console.New(io.Discard, io.Discard, false), ID: "rome"}
}
