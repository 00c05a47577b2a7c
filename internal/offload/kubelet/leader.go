package kubelet

import (
	"cmp"
	"strings"
	"time"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// kubeletTimeout is how long a virtual kubelet may be down before another one becomes the leader for its provider. A restart with a new identity or
// image takes less time. If the options of the two virtual kubelets differ, each change of the leader causes writes, and load balancers lose their
// addresses.
const kubeletTimeout = time.Minute

// Leader returns the name of the VirtualNode whose virtual kubelet maintains the copies, among all VirtualNodes of a provider; empty if there are
// none. The result again is the delay after which the caller must call Leader again, zero if only a changed VirtualNode can change the result.
//
// The leader is the first by name of the VirtualNodes whose virtual kubelet runs, or is down for less than kubeletTimeout. If there is no such
// VirtualNode, the leader is the first that is not being deleted, otherwise the first of all. The state of the virtual kubelet decides, not that of
// its Node: if the provider is unreachable, no Node is ready, and each became not ready at a different time.
func Leader(nodes []*offloadingv1beta1.VirtualNode, now time.Time) (name string, again time.Duration) {
	best := 0
	for _, node := range nodes {
		rank := 0
		switch left, away := timeLeft(node, now); {
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

// timeLeft reports whether the virtual kubelet of a VirtualNode is down, and how much of kubeletTimeout is left.
func timeLeft(node *offloadingv1beta1.VirtualNode, now time.Time) (left time.Duration, away bool) {
	since := node.CreationTimestamp // no virtual kubelet has been observed yet
	for _, c := range node.Status.Conditions {
		if c.Type != offloadingv1beta1.VirtualNodeVirtualKubelet {
			continue
		}
		if c.Status == offloadingv1beta1.VirtualNodeRunning {
			return 0, false
		}
		since = c.LastTransitionTime
	}
	return kubeletTimeout - now.Sub(since.Time), true
}
