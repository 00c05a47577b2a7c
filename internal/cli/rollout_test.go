package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/cli/console"
)

// TestStuckPodsAreNamedAtOnce: while the installation waits, an image that cannot be pulled is reported once for all pods, with reason and message.
func TestStuckPodsAreNamedAtOnce(t *testing.T) {
	pod := func(name, reason string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name, Labels: map[string]string{"app.kubernetes.io/part-of": "liqo"}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "fabric", Image: "registry/fabric:0.0.0-dev",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "manifest unknown"}},
			}}},
		}
	}
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		c := fakeCluster("rome", pod("fabric-a", "ErrImagePull"), pod("fabric-b", "ImagePullBackOff"), pod("fabric-c", "ContainerCreating"))
		c.namespace, c.Console = "liqo", console.New(&out, &out, false)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		c.tellStuck(ctx)
	})
	want := "Image registry/fabric:0.0.0-dev can not be pulled: container fabric of pod fabric-a in namespace liqo is waiting, ErrImagePull: manifest unknown"
	if said := out.String(); !strings.Contains(said, want) || strings.Count(said, "WARN") != 1 {
		t.Errorf("no %q, once, in %s", want, said)
	}
}
