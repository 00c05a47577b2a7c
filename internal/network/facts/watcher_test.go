package facts

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// TestIrrelevantUpdatesAreIgnored: agents react to changes that their plans depend on, and not to heartbeats and measurements.
func TestIrrelevantUpdatesAreIgnored(t *testing.T) {
	object := func(version string, change func(*networkingv1beta1.Connection)) *networkingv1beta1.Connection {
		c := &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "gw-milan", ResourceVersion: version}}
		c.Status.Value, c.Status.Latency = networkingv1beta1.Connected, &networkingv1beta1.ConnectionLatency{Value: "1ms"}
		if change != nil {
			change(c)
		}
		return c
	}
	for name, c := range map[string]struct {
		after *networkingv1beta1.Connection
		want  bool
	}{
		"the same again": {object("1", nil), false},
		"another latency": {object("2", func(c *networkingv1beta1.Connection) {
			c.Status.Latency = &networkingv1beta1.ConnectionLatency{Value: "2ms"}
		}), false},
		"another value": {object("2", func(c *networkingv1beta1.Connection) { c.Status.Value = networkingv1beta1.ConnectionError }), true},
		"another MTU":   {object("2", func(c *networkingv1beta1.Connection) { c.Status.MTU = 1300 }), true},
	} {
		if got := differ(object("1", nil), c.after); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
	beat := func(version string, ready corev1.ConditionStatus) any {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: version}}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "172.16.0.1"}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		return keepNode(node)
	}
	if differ(beat("1", corev1.ConditionTrue), beat("2", corev1.ConditionFalse)) {
		t.Error("a node that is not ready for a while is news")
	}
}

// TestKeptPodsTellWhetherTheyAreLiqos: a pod in the cache keeps its namespace. A virtual kubelet or a gateway also keeps the label that identifies it. Labels
// of other pods are dropped to save memory.
func TestKeptPodsTellWhetherTheyAreLiqos(t *testing.T) {
	for name, row := range map[string]struct{ labels, want map[string]string }{
		"an application": {map[string]string{"app": "web"}, nil},
		"a virtual kubelet": {
			map[string]string{"app": "vk", offloadingv1beta1.LabelComponent: offloadingv1beta1.ComponentVirtualKubelet},
			map[string]string{offloadingv1beta1.LabelComponent: offloadingv1beta1.ComponentVirtualKubelet},
		},
		"a gateway": {
			map[string]string{networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway},
			map[string]string{networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway},
		},
	} {
		pod := keepPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "p", Labels: row.labels}})
		if pod.Namespace != "liqo" || !maps.Equal(pod.Labels, row.want) {
			t.Errorf("%s: kept %s with %v, want %v", name, pod.Namespace, pod.Labels, row.want)
		}
	}
}
