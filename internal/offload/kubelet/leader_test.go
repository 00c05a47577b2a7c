package kubelet

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
)

// TestLeader: exactly one virtual kubelet maintains the copies, and another one takes over if it is down.
func TestLeader(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) metav1.Time { return metav1.NewTime(now.Add(-ago)) }
	node := func(name string, kubelet offloadingv1beta1.VirtualNodeConditionStatus, ago time.Duration) *offloadingv1beta1.VirtualNode {
		n := virtualNode(name, "milan")
		n.CreationTimestamp = at(ago)
		offload.SetCondition(&n, offloadingv1beta1.VirtualNodeNode, offloadingv1beta1.VirtualNodeRunning, "", "", at(time.Hour))
		if kubelet != "" {
			n.CreationTimestamp = at(24 * time.Hour)
			offload.SetCondition(&n, offloadingv1beta1.VirtualNodeVirtualKubelet, kubelet, "", "", at(ago))
		}
		return &n
	}
	leaving := func(n *offloadingv1beta1.VirtualNode) *offloadingv1beta1.VirtualNode {
		gone := at(time.Second)
		n.DeletionTimestamp = &gone
		return n
	}
	const (
		running, creating, none, draining = offloadingv1beta1.VirtualNodeRunning, offloadingv1beta1.VirtualNodeCreating, offloadingv1beta1.VirtualNodeNone, offloadingv1beta1.VirtualNodeDraining
		unseen                            = offloadingv1beta1.VirtualNodeConditionStatus("")
	)
	for name, row := range map[string]struct {
		nodes []*offloadingv1beta1.VirtualNode
		want  string
		again time.Duration
	}{
		"none":                                     {nil, "", 0},
		"all run":                                  {[]*offloadingv1beta1.VirtualNode{node("mypool", running, 0), node("mynode", running, 0), node("other", running, 0)}, "mynode", 0},
		"the first is restarted":                   {[]*offloadingv1beta1.VirtualNode{node("mynode", creating, 20*time.Second), node("mypool", running, 0)}, "mynode", 40 * time.Second},
		"the first does not come back":             {[]*offloadingv1beta1.VirtualNode{node("mynode", creating, time.Minute), node("mypool", running, 0)}, "mypool", 0},
		"the first is refused":                     {[]*offloadingv1beta1.VirtualNode{node("mynode", none, time.Hour), node("mypool", running, 0)}, "mypool", 0},
		"the first is new":                         {[]*offloadingv1beta1.VirtualNode{node("mynode", unseen, 10*time.Second), node("mypool", running, 0)}, "mynode", 50 * time.Second},
		"nobody looks at the first":                {[]*offloadingv1beta1.VirtualNode{node("mynode", unseen, time.Hour), node("mypool", running, 0)}, "mypool", 0},
		"all are restarted":                        {[]*offloadingv1beta1.VirtualNode{node("mynode", creating, 5*time.Second), node("mypool", creating, 9*time.Second)}, "mynode", 51 * time.Second},
		"none comes back":                          {[]*offloadingv1beta1.VirtualNode{node("mypool", creating, time.Hour), node("mynode", none, time.Hour)}, "mynode", 0},
		"the first leaves":                         {[]*offloadingv1beta1.VirtualNode{leaving(node("mynode", draining, time.Second)), node("mypool", running, 0)}, "mypool", 0},
		"the first leaves, the other does not run": {[]*offloadingv1beta1.VirtualNode{leaving(node("mynode", running, 0)), node("mypool", none, time.Hour)}, "mypool", 0},
		"all leave":                                {[]*offloadingv1beta1.VirtualNode{leaving(node("mypool", draining, 0)), leaving(node("mynode", draining, 0))}, "mynode", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got, again := Leader(row.nodes, now); got != row.want || again != row.again {
				t.Errorf("%q leads, ask again after %v, want %q after %v", got, again, row.want, row.again)
			}
		})
	}
}
