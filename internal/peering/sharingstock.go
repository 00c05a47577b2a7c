package peering

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	schedulerresource "k8s.io/component-helpers/resource"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// stock is what there is of one resource, in units.
type stock struct {
	// capacity of the nodes that take pods, local is what pods there take that belong to no claim.
	capacity, local int64
}

// stockOf counts what there is, and notes in each claim what it uses of it. A pod uses what it requests on a node that counts, from when it is bound
// to it until it has finished: what waits for a place takes none from anybody.
func stockOf(policy SharingPolicy, facts SharingFacts, claims []*claim) map[corev1.ResourceName]stock {
	capacity, counts := corev1.ResourceList{}, map[string]bool{}
	for i := range facts.Nodes {
		node := &facts.Nodes[i]
		if node.Labels[api.LabelType] == api.TypeVirtualNode {
			continue
		}
		for name := range node.Status.Allocatable {
			add(capacity, corev1.ResourceList{name: {}}) // none is something to say, too
		}
		if takesPods(node) {
			counts[node.Name] = true
			add(capacity, node.Status.Allocatable)
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
		if !counts[pod.Spec.NodeName] || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		owner := used[pod.Labels[offloadingv1beta1.LabelCreatorUser]]
		if owner == nil || pod.Labels[offloadingv1beta1.LabelManagedBy] != offloadingv1beta1.ManagedByShadowPod {
			owner = local
		}
		add(owner, PodUse(pod))
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

// PodUse is what a pod takes on its node: what the scheduler reserves, also while it is resized, and one pod.
func PodUse(pod *corev1.Pod) corev1.ResourceList {
	use := schedulerresource.PodRequests(pod, schedulerresource.PodResourcesOptions{UseStatusResources: true})
	use[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return use
}

// takesPods tells whether what a Node has can be shared: it is ready and takes pods of consumers. A taint keeps them off, except that of
// nodes with devices: by convention its key is the name of the device, and pods that ask for one are let on.
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

func add(to, more corev1.ResourceList) {
	for name, quantity := range more {
		sum := to[name]
		sum.Add(quantity)
		to[name] = sum
	}
}

// everyPod tells whether every pod needs some of a resource.
func everyPod(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		return true
	default:
		return false
	}
}

// device tells whether a resource is counted in whole devices that are asked for by name: an extended resource.
func device(name corev1.ResourceName) bool { return strings.Contains(string(name), "/") }

// shareable tells whether a resource is something pods ask for. Nodes tell of other things too, such as how many volumes can be attached.
func shareable(name corev1.ResourceName) bool {
	return everyPod(name) || device(name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// The largest amounts that are told apart. Sums of thousands of them still fit.
const (
	mostBytes = 1 << 60
	most      = 1 << 40
)

// unitOf is how much of a resource is divided no further: a thousandth of a CPU (1), a mebibyte, a page, a piece.
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

// units of a resource in a quantity, between 0 and a very large number.
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
		n-- // both round up
	}
	if up {
		return (n + unit - 1) / unit
	}
	return n / unit
}

// quantityOf so many units of a resource.
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
