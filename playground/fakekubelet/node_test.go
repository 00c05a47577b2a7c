package fakekubelet

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestNodeIsRegisteredReady(t *testing.T) {
	config, _, err := prepare(Config{Kubeconfig: "/missing"})
	if err == nil {
		t.Fatal("a missing kubeconfig was accepted")
	}
	config.Labels = map[string]string{"zone": "z"}
	config.Taints = []corev1.Taint{{Key: "fake", Effect: corev1.TaintEffectNoSchedule}}
	node := nodeOf(config, "v1.35.4", 7, start)
	if node.Name != "fake-7" || node.Labels["kubernetes.io/hostname"] != "fake-7" || node.Labels[NodeLabel] != "fake" || node.Labels["zone"] != "z" {
		t.Errorf("%s %v", node.Name, node.Labels)
	}
	if diff := cmp.Diff(config.Taints, node.Spec.Taints); diff != "" {
		t.Error(diff)
	}
	if got := node.Status.Allocatable; got.Cpu().String() != "32" || got.Memory().String() != "256Gi" || got.Pods().Value() != 110 {
		t.Errorf("%v", got)
	}
	if got := node.Status.Conditions[3]; got.Type != corev1.NodeReady || got.Status != corev1.ConditionTrue {
		t.Errorf("%v", got)
	}
}

func TestNodeStatusIsRepaired(t *testing.T) {
	config := Config{NamePrefix: "n", CPU: resource.MustParse("1"), Memory: resource.MustParse("1Gi"), Pods: 5}
	healthy := nodeStatus(config, "v1", 0, corev1.NodeStatus{}, start)
	later := start.Add(time.Minute)
	if diff := cmp.Diff(healthy, nodeStatus(config, "v1", 0, healthy, later)); diff != "" {
		t.Errorf("a healthy status changes: %s", diff)
	}
	lost := *healthy.DeepCopy()
	lost.Conditions[3].Status, lost.Conditions[3].Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
	lost.Conditions = append(lost.Conditions, corev1.NodeCondition{Type: "NetworkUnavailable", Status: corev1.ConditionFalse})
	got := nodeStatus(config, "v1", 0, lost, later)
	if c := got.Conditions[3]; c.Status != corev1.ConditionTrue || !c.LastTransitionTime.Time.Equal(later.Truncate(time.Second)) {
		t.Errorf("%v", c)
	}
	if c := got.Conditions[0]; !c.LastTransitionTime.Time.Equal(start.Truncate(time.Second)) {
		t.Errorf("%v", c)
	}
	if len(got.Conditions) != 5 {
		t.Errorf("the condition of another was lost: %v", got.Conditions)
	}
}

func TestNodeAddressesAreUniqueAndInTheirNetwork(t *testing.T) {
	seen := map[netip.Addr]bool{}
	for i := range maxNodes {
		a := nodeAddress(i)
		if seen[a] || !nodeNetwork.Contains(a) {
			t.Fatalf("node %d: %s", i, a)
		}
		seen[a] = true
	}
}
