package ipam

import (
	"cmp"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/reasons"
)

// unreachable adds a problem to each plan whose IP the network ignores, so that peers reach nothing through its address. It leaves out IPs that
// are unreachable on purpose (label LabelHostUnreachable).
func unreachable(objects IPObjects, plans map[types.NamespacedName]IPPlan) {
	var pods []netip.Prefix
	var external netip.Prefix
	for i := range objects.Networks {
		n := &objects.Networks[i]
		cidr, err := ParsePrefix(n.Status.CIDR)
		switch {
		case err != nil:
		case keyOf(&n.ObjectMeta) == objects.External:
			external = cidr
		case n.Namespace == objects.External.Namespace && n.Labels[ipamv1alpha1.LabelNetworkType] == ipamv1alpha1.NetworkTypePod:
			pods = append(pods, cidr)
		}
	}
	exposing := make(map[netip.Addr]types.NamespacedName, len(plans))
	for _, ip := range slices.SortedFunc(slices.Values(pointers(objects.IPs)), Exposing(objects.External.Namespace)) {
		key := keyOf(&ip.ObjectMeta)
		plan := plans[key]
		if plan.Problem != (Problem{}) || !plan.Addr.IsValid() || !ip.DeletionTimestamp.IsZero() || ip.Labels[networkingv1beta1.LabelHostUnreachable] == api.True {
			continue
		}
		real, err := netip.ParseAddr(ip.Spec.IP)
		if err != nil {
			continue
		}
		other, taken := exposing[real]
		switch i := slices.IndexFunc(pods, func(p netip.Prefix) bool { return p.Contains(real) }); {
		case i >= 0:
			plan.Problem = problem(reasons.PodAddress,
				"spec.ip %s is in %s, the range of this cluster's pods: peers reach pods by their own addresses; delete the IP", real, pods[i])
		case external.IsValid() && !external.Contains(plan.Addr):
			plan.Problem = problem(reasons.NotExternal,
				"status.ip %s is not in %s, where peers look for what is exposed: create the IP again without spec.networkRef", plan.Addr, external)
		case taken && systemNode(ip, objects.External.Namespace):
			continue // a user's IP gives that node another address
		case taken:
			plan.Problem = problem(reasons.Duplicate,
				"spec.ip %s is already exposed by IP %s, so its answers have the status.ip of that object: use that status.ip, or delete one of the two", real, other)
		default:
			exposing[real] = key
			continue
		}
		plans[key] = plan
	}
}

// Exposing orders IPs. If several IPs name the same address, the first of them in this order is the one that peers use. IPs of
// users come before the ones that the system creates for every node; then older ones come first.
func Exposing(liqoNamespace string) func(a, b *ipamv1alpha1.IP) int {
	rank := func(ip *ipamv1alpha1.IP) int {
		if systemNode(ip, liqoNamespace) {
			return 1
		}
		return 0
	}
	return func(a, b *ipamv1alpha1.IP) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), older(&a.ObjectMeta, &b.ObjectMeta, true, true))
	}
}

func systemNode(ip *ipamv1alpha1.IP, liqoNamespace string) bool {
	return ip.Namespace == liqoNamespace && ip.Labels[ipamv1alpha1.LabelIPType] == ipamv1alpha1.IPTypeNode
}

func pointers(ips []ipamv1alpha1.IP) []*ipamv1alpha1.IP {
	out := make([]*ipamv1alpha1.IP, len(ips))
	for i := range ips {
		out[i] = &ips[i]
	}
	return out
}
