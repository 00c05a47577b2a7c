package offload

import (
	"cmp"
	"strings"
	"time"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// kubeletPatience is how long a virtual kubelet may be away before another one does what is done once for a provider. One that is restarted, with
// a new identity or image, is back sooner; where two of them have other options, each change costs writes, and load balancers their addresses.
const kubeletPatience = time.Minute

// Leader returns the name of that one of a provider's VirtualNodes whose virtual kubelet takes care of the copies, empty if there are none, and
// after which time to ask again, zero if only news matter. It is the first by name of those that run, else of those that stay, else of all. What
// counts is the virtual kubelet and not its Node: when the provider is out of reach no Node is ready, and no two for the same time.
func Leader(nodes []*offloadingv1beta1.VirtualNode, now time.Time) (name string, again time.Duration) {
	best := 0
	for _, node := range nodes {
		rank := 0
		switch left, away := patience(node, now); {
		case node.DeletionTimestamp != nil:
			rank = 2
		case away && left <= 0:
			rank = 1
		case away && (again == 0 || left < again):
			again = left
		}
		if name == "" || cmp.Or(cmp.Compare(rank, best), strings.Compare(node.Name, name)) < 0 {
			name, best = node.Name, rank
		}
	}
	return name, again
}

// patience tells whether the virtual kubelet of a VirtualNode is away, and how long that may still go on.
func patience(node *offloadingv1beta1.VirtualNode, now time.Time) (left time.Duration, away bool) {
	since := node.CreationTimestamp // nobody looked for it yet
	for _, c := range node.Status.Conditions {
		if c.Type != offloadingv1beta1.VirtualNodeVirtualKubelet {
			continue
		}
		if c.Status == offloadingv1beta1.VirtualNodeRunning {
			return 0, false
		}
		since = c.LastTransitionTime
	}
	return kubeletPatience - now.Sub(since.Time), true
}
