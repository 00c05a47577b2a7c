package network

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// TestUnattended: the controller reports the loss of a gateway whose replicas cannot report it. Times are in seconds.
func TestUnattended(t *testing.T) {
	at := func(seconds int64) metav1.Time { return metav1.Unix(seconds, 0) }
	pod := func(status corev1.ConditionStatus, since int64) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(since)}}
		if status != "" {
			p.CreationTimestamp = at(0)
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: at(since)}}
		}
		return p
	}
	lost := func(status corev1.ConditionStatus, since int64) corev1.Pod { // a pod as Kubernetes reports it after it lost contact with the node
		p := pod(status, since)
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue})
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		return p
	}
	restarting := lost("False", 60) // a pod whose agent restarts while the tunnel works
	restarting.Status.Conditions[1].Status = corev1.ConditionFalse
	told := func(value string, condition, latency int64) networkingv1beta1.ConnectionStatus {
		s := networkingv1beta1.ConnectionStatus{Value: value, MTU: 1400, Conditions: []metav1.Condition{{
			Type: networkingv1beta1.ConditionConnected, Status: metav1.ConditionTrue, Reason: value, LastTransitionTime: at(condition)}}}
		if latency > 0 {
			s.Latency = &networkingv1beta1.ConnectionLatency{Value: "1ms", Timestamp: at(latency)}
		}
		return s
	}
	for name, c := range map[string]struct {
		before networkingv1beta1.ConnectionStatus
		pods   []corev1.Pod
		now    int64
		want   string
		again  time.Duration
	}{
		"at work":                        {told("Connected", 10, 90), []corev1.Pod{pod("True", 20)}, 100, "Connected", 0},
		"one of two left":                {told("Connected", 10, 90), []corev1.Pod{pod("False", 95), pod("True", 20)}, 200, "Connected", 0},
		"its node died":                  {told("Connected", 10, 50), []corev1.Pod{lost("False", 90)}, 100, "Error", 0},
		"its agent starts anew":          {told("Connected", 10, 50), []corev1.Pod{restarting}, 100, "Connected", 0},
		"nothing of it runs":             {told("Connected", 10, 50), []corev1.Pod{pod("False", 90)}, 100, "Error", 0},
		"both nodes died":                {told("Connected", 10, 80), []corev1.Pod{lost("False", 60), lost("Unknown", 90)}, 100, "Error", 0},
		"just now":                       {told("Connected", 10, 50), []corev1.Pod{pod("False", 98)}, 100, "Connected", 3 * time.Second},
		"a new one begins":               {told("Connected", 10, 50), []corev1.Pod{pod("", 99)}, 100, "Connected", 4 * time.Second},
		"a new one does not become any":  {told("Connected", 10, 50), []corev1.Pod{pod("", 60)}, 100, "Error", 0},
		"it speaks though its node died": {told("Connected", 91, 50), []corev1.Pod{pod("False", 90)}, 100, "Connected", 0},
		"and its latency is newer":       {told("Connected", 10, 91), []corev1.Pod{pod("False", 90)}, 100, "Connected", 0},
		"no pods":                        {told("Connected", 10, 50), nil, 100, "Error", 0},
		"no pods for a moment":           {told("Connected", 98, 0), nil, 100, "Connected", 3 * time.Second},
		"never connected":                {told("Connecting", 10, 0), nil, 100, "Connecting", 0},
		"said so itself":                 {told("Error", 10, 0), nil, 100, "Error", 0},
	} {
		after, again := Unattended(c.before, 1, c.pods, at(c.now).Time)
		if after.Value != c.want || again != c.again {
			t.Errorf("%s: got %s and to look again after %v, want %s and %v", name, after.Value, again, c.want, c.again)
		}
		if changed := after.Value != c.before.Value; changed == cmp.Equal(c.before, after) || changed && meta.IsStatusConditionTrue(after.Conditions, networkingv1beta1.ConditionConnected) {
			t.Errorf("%s: status %+v", name, after)
		}
		if twice, _ := Unattended(after, 1, c.pods, at(c.now+1000).Time); after.Value != networkingv1beta1.Connected && !cmp.Equal(twice, after) {
			t.Errorf("%s: said twice: %+v", name, twice)
		}
	}
}
