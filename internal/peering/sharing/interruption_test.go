package sharing

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/peering"
)

// TestInterruptedNodes: consumers get the nodes that are about to be shut down or do not work. A taint that restricts which pods may run on a node is
// not an interruption.
func TestInterruptedNodes(t *testing.T) {
	tainted := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   string
	}{
		"as it is":                  {func(*corev1.Node) {}, ""},
		"control plane":             {tainted("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule), ""},
		"for one team":              {tainted("team", corev1.TaintEffectNoExecute), ""},
		"spot instances":            {tainted("kubernetes.azure.com/scalesetpriority", corev1.TaintEffectNoSchedule), ""},
		"spot interruption on AWS":  {tainted("aws-node-termination-handler/spot-itn", corev1.TaintEffectNoSchedule), "taint aws-node-termination-handler/spot-itn"},
		"termination on GKE":        {tainted("cloud.google.com/impending-node-termination", corev1.TaintEffectNoSchedule), "taint cloud.google.com/impending-node-termination"},
		"a key that only begins so": {tainted("karpenter.sh/disrupted-by-us", corev1.TaintEffectNoSchedule), ""},
		"Karpenter":                 {tainted("karpenter.sh/disrupted", corev1.TaintEffectNoSchedule), "taint karpenter.sh/disrupted"},
		"announced, then drained, then stopped": {func(n *corev1.Node) {
			tainted("aws-node-termination-handler/spot-itn", corev1.TaintEffectNoSchedule)(n)
			n.Spec.Unschedulable = true
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		}, "taint aws-node-termination-handler/spot-itn"},
		"cordoned":  {func(n *corev1.Node) { n.Spec.Unschedulable = true }, "is cordoned"},
		"not ready": {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, "is not ready"},
		"deleted":   {func(n *corev1.Node) { now := at(0); n.DeletionTimestamp = &now }, "is being deleted"},
		"virtual, not ready": {func(n *corev1.Node) {
			n.Labels = map[string]string{"liqo.io/type": "virtual-node"}
			n.Status.Conditions[0].Status = corev1.ConditionFalse
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMarket("cpu", "10").node("two", "cpu", "10").asks("rome/a")
			c.change(&m.facts.Nodes[1])
			var want []authv1beta1.InterruptedNode
			if c.want != "" {
				want = []authv1beta1.InterruptedNode{{Name: "two", Cause: c.want}}
			}
			got := Shares(m.policy, m.facts)[keyOf("rome/a")].Interrupted
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestManyInterruptedNodes: a status stays small, and its list does not change with the order of a cache.
func TestManyInterruptedNodes(t *testing.T) {
	m := newMarket("cpu", "10").asks("rome/a")
	for i := 30; i > 0; i-- {
		m.node(fmt.Sprintf("node-%02d", i), "cpu", "1")
		m.facts.Nodes[len(m.facts.Nodes)-1].Spec.Unschedulable = true
	}
	got := Shares(m.policy, m.facts)[keyOf("rome/a")].Interrupted
	if len(got) != authv1beta1.MaxInterruptedNodes || got[0].Name != "node-01" || got[9].Name != "node-10" {
		t.Errorf("%v", got)
	}
}

// TestVerdictsCarryInterruptions: the status of a ResourceSlice follows the interruptions, also without a change of resources.
func TestVerdictsCarryInterruptions(t *testing.T) {
	m := newMarket("cpu", "10").asks("rome/a", "cpu", "1")
	key := types.NamespacedName{Namespace: "rome", Name: "a"}
	slice := &m.facts.Slices[0]
	slice.Namespace, slice.Name = key.Namespace, key.Name
	decide := func(grants peering.Grants) {
		DecideResources(slice, grants, Offer{Enabled: true}, Shares(m.policy, m.facts)[key], metav1.Time{})
	}
	all := peering.Grants{Access: true, More: true}
	decide(all)
	m.node("two", "cpu", "10")
	if Moved(slice, Shares(m.policy, m.facts)[key]) {
		t.Error("another node is a change")
	}
	m.facts.Nodes[1].Spec.Unschedulable = true
	if share := Shares(m.policy, m.facts)[key]; !Moved(slice, share) {
		t.Errorf("an interruption is no change: %v", share)
	}
	for name, grants := range map[string]peering.Grants{"active": all, "cordoned": {Access: true}} {
		slice.Status.InterruptedNodes = nil
		if decide(grants); len(slice.Status.InterruptedNodes) != 1 {
			t.Errorf("%s: %v", name, slice.Status.InterruptedNodes)
		}
	}
	if decide(peering.Grants{}); slice.Status.InterruptedNodes != nil {
		t.Errorf("a drained tenant is still told: %v", slice.Status.InterruptedNodes)
	}
}
