package sharing

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	schedulerresource "k8s.io/component-helpers/resource"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// stock is how much of one resource this cluster has, in units (see unitOf).
type stock struct {
	// capacity is the capacity of the nodes that accept pods, or the ceiling of the policy if that is greater. local is the usage of those pods on them that belong to no claim.
	capacity, local int64
}

// stockOf returns the stock of each resource, and records in each claim what its pods use. A pod uses its requests from its binding to a node that
// accepts pods until it has finished. Pods that are not scheduled yet use nothing.
func stockOf(policy Policy, facts Facts, claims []*claim) map[corev1.ResourceName]stock {
	capacity, counts := corev1.ResourceList{}, map[string]bool{}
	for i := range facts.Nodes {
		node := &facts.Nodes[i]
		if node.Labels[api.LabelType] == api.TypeVirtualNode {
			continue
		}
		for name := range node.Status.Allocatable {
			api.AddResources(capacity, corev1.ResourceList{name: {}}) // a resource with no capacity must be listed, too
		}
		if takesPods(node) {
			counts[node.Name] = true
			api.AddResources(capacity, node.Status.Allocatable)
		}
	}
	for name, most := range policy.Ceiling {
		if have := capacity[name]; have.Cmp(most) < 0 {
			capacity[name] = most
		}
	}
	local, used := corev1.ResourceList{}, map[string]corev1.ResourceList{}
	for _, c := range claims {
		used[c.creator] = corev1.ResourceList{}
	}
	for i := range facts.Pods {
		pod := &facts.Pods[i]
		if !counts[pod.Spec.NodeName] || api.PodFinished(pod) {
			continue
		}
		owner := used[pod.Labels[offloadingv1beta1.LabelCreatorUser]]
		if owner == nil || pod.Labels[offloadingv1beta1.LabelManagedBy] != offloadingv1beta1.ManagedByShadowPod {
			owner = local
		}
		api.AddResources(owner, PodUse(pod))
	}
	all := make(map[corev1.ResourceName]stock, len(capacity))
	for name, quantity := range capacity {
		if shareable(name) {
			all[name] = stock{capacity: units(name, quantity, false), local: units(name, local[name], true)}
		}
	}
	for _, c := range claims {
		c.used = make(map[corev1.ResourceName]int64, len(used[c.creator]))
		for name, quantity := range used[c.creator] {
			c.used[name] = units(name, quantity, true)
		}
	}
	return all
}

// Free returns what the nodes that accept pods have left: their allocatable resources minus what the pods on them use. It lists the
// resources that pods can request.
func Free(nodes []corev1.Node, pods []corev1.Pod) corev1.ResourceList {
	free := corev1.ResourceList{}
	for name, have := range stockOf(Policy{}, Facts{Nodes: nodes, Pods: pods}, nil) {
		free[name] = quantityOf(name, max(0, have.capacity-have.local))
	}
	return free
}

// PodUse returns what a pod uses on its node: the requests that the scheduler reserves, also during an in-place resize, and one unit of the
// resource "pods".
func PodUse(pod *corev1.Pod) corev1.ResourceList {
	use := schedulerresource.PodRequests(pod, schedulerresource.PodResourcesOptions{UseStatusResources: true})
	use[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return use
}

// takesPods reports whether the resources of a Node can be shared: the Node is ready and accepts the pods of consumers. A Node with taints does not
// accept them. Two kinds of taints are ignored: those with effect PreferNoSchedule, and those whose key is the name of a device of the Node. By
// convention, pods that request the device tolerate its taint.
func takesPods(node *corev1.Node) bool {
	if node.Spec.Unschedulable || !node.DeletionTimestamp.IsZero() {
		return false
	}
	for _, taint := range node.Spec.Taints {
		if _, device := node.Status.Allocatable[corev1.ResourceName(taint.Key)]; taint.Effect != corev1.TaintEffectPreferNoSchedule && !device {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// everyPod reports whether every pod needs some of a resource.
func everyPod(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		return true
	default:
		return false
	}
}

// device reports whether a resource is an extended resource: it is counted in whole devices, and pods request it by name.
func device(name corev1.ResourceName) bool { return strings.Contains(string(name), "/") }

// shareable reports whether pods can request a resource. Nodes also list other limits, such as the number of volumes that can be attached.
func shareable(name corev1.ResourceName) bool {
	return everyPod(name) || device(name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// The largest amounts in bytes and in other units; larger ones are reduced to these. Sums of thousands of them do not overflow an int64.
const (
	mostBytes = 1 << 60
	most      = 1 << 40
)

// unitOf returns the smallest amount of a resource that is given to a party: 1 MiB of memory or storage, one huge page, one piece. For CPU
// it returns 1, which stands for a thousandth of a CPU.
func unitOf(name corev1.ResourceName) (bytes int64) {
	switch {
	case name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage:
		return 1 << 20
	case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		page, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
		if size := page.Value(); err == nil && size > 0 && size < mostBytes {
			return size
		}
	}
	return 1
}

// units returns the number of units in a quantity, between 0 and the largest amount. It rounds up if up is true, otherwise down.
func units(name corev1.ResourceName, quantity resource.Quantity, up bool) int64 {
	unit, limit := unitOf(name), int64(most)
	if unit > 1 {
		limit = mostBytes
	}
	switch {
	case quantity.Sign() <= 0:
		return 0
	case quantity.CmpInt64(limit) > 0:
		quantity = *resource.NewQuantity(limit, resource.DecimalSI)
	}
	n, whole := quantity.Value(), resource.NewQuantity(quantity.Value(), resource.DecimalSI)
	if name == corev1.ResourceCPU {
		n = quantity.MilliValue()
		whole = resource.NewMilliQuantity(n, resource.DecimalSI)
	}
	if !up && whole.Cmp(quantity) > 0 {
		n-- // Value and MilliValue round up
	}
	if up {
		return (n + unit - 1) / unit
	}
	return n / unit
}

// quantityOf returns the quantity of n units of a resource.
func quantityOf(name corev1.ResourceName, n int64) resource.Quantity {
	unit := unitOf(name)
	switch {
	case name == corev1.ResourceCPU:
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	case unit > 1:
		return *resource.NewQuantity(n*unit, resource.BinarySI)
	default:
		return *resource.NewQuantity(n, resource.DecimalSI)
	}
}
