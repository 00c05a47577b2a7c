package ipam

import (
	"hash/fnv"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/reasons"
)

// IPObjects are all the inputs of the plan of addresses.
type IPObjects struct {
	IPs      []ipamv1alpha1.IP
	Networks []ipamv1alpha1.Network
	// External is the Network that gives addresses to IPs without a spec.networkRef.
	External types.NamespacedName
}

// IPPlan is the plan for an IP.
type IPPlan struct {
	// Addr is the address of the IP, and CIDR the range that contains it. Both are invalid if the IP can have none.
	Addr netip.Addr
	CIDR netip.Prefix
	// Problem is zero if there is none. For an IP with an address, it describes a conflict of the address, or the reason why peers cannot use it.
	Problem Problem
}

// NetworkOf returns the name of the Network that gives an IP its address.
func NetworkOf(ip *ipamv1alpha1.IP, external types.NamespacedName) types.NamespacedName {
	ref := ip.Spec.NetworkRef
	if ref == nil || ref.Name == "" {
		return external
	}
	if ref.Namespace == "" {
		return types.NamespacedName{Namespace: ip.Namespace, Name: ref.Name}
	}
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}

// IPs plans the addresses of all IPs. An IP that has an address keeps it. Every other IP gets a free address of the range of its
// Network. The preallocated addresses at the beginning of the range (at least the first address) and the last address are never
// given.
//
// The search starts at a place that depends on the namespace and name of the IP, for two reasons. A released address is unlikely to be given to
// the next IP, which might get packets that peers still send to the old one. And a recreated IP is likely to get its old address again, even
// after the loss of all objects.
//
// No two IPs have the same address. The plan depends only on the objects, not on their order. Planning again with the given
// addresses changes nothing.
func IPs(objects IPObjects) map[types.NamespacedName]IPPlan {
	out := make(map[types.NamespacedName]IPPlan, len(objects.IPs))
	sources := make(map[types.NamespacedName]*source, len(objects.Networks))
	for i := range objects.Networks {
		sources[keyOf(&objects.Networks[i].ObjectMeta)] = newSource(&objects.Networks[i])
	}
	order := pointers(objects.IPs)
	slices.SortFunc(order, func(a, b *ipamv1alpha1.IP) int {
		return older(&a.ObjectMeta, &b.ObjectMeta, a.Status.IP != "", b.Status.IP != "")
	})
	owners := make(map[netip.Addr]types.NamespacedName, len(objects.IPs))
	for _, ip := range order {
		key, from := keyOf(&ip.ObjectMeta), NetworkOf(ip, objects.External)
		switch {
		case ip.Status.IP != "":
			out[key] = keep(ip, from, sources[from], owners)
		case !ip.DeletionTimestamp.IsZero():
			continue
		default:
			out[key] = give(ip, from, sources[from], owners)
		}
		if addr := out[key].Addr; addr.IsValid() {
			if _, known := owners[addr]; !known {
				owners[addr] = key
				sources[from].count(addr)
			}
		}
	}
	unreachable(objects, out)
	return out
}

// keep plans an IP that has an address.
func keep(ip *ipamv1alpha1.IP, from types.NamespacedName, s *source, owners map[netip.Addr]types.NamespacedName) IPPlan {
	plan := IPPlan{}
	var err error
	if plan.Addr, err = netip.ParseAddr(ip.Status.IP); err != nil || !plan.Addr.Is4() {
		return IPPlan{Problem: problem(reasons.Invalid, "status.ip %q is not an IPv4 address: delete the IP and create it again", ip.Status.IP)}
	}
	plan.CIDR, _ = ParsePrefix(ip.Status.CIDR)
	owner, conflict := owners[plan.Addr]
	switch {
	case conflict:
		plan.Problem = problem(reasons.Conflict, "status.ip %s is also the status.ip of IP %s: delete one of the two and create it again", plan.Addr, owner)
	case s == nil || !s.cidr.IsValid():
		plan.Problem = problem(reasons.WaitingForNetwork, "status.ip %s is from Network %s, which does not exist or has no range", plan.Addr, from)
	case !s.cidr.Contains(plan.Addr):
		plan.Problem = problem(reasons.Conflict, "status.ip %s is not in %s, the range of Network %s: delete the IP and create it again", plan.Addr, s.cidr, from)
	case !plan.CIDR.IsValid():
		plan.CIDR = s.cidr
	}
	return plan
}

// give plans an IP that has no address.
func give(ip *ipamv1alpha1.IP, from types.NamespacedName, s *source, owners map[netip.Addr]types.NamespacedName) IPPlan {
	if problem := checkAddress(ip.Spec.IP); problem != (Problem{}) {
		return IPPlan{Problem: problem}
	}
	switch {
	case s == nil:
		return IPPlan{Problem: problem(reasons.WaitingForNetwork, "waiting for Network %s, which does not exist", from)}
	case s.why != "":
		return IPPlan{Problem: problem(reasons.Invalid,
			"spec.networkRef names Network %s, which %s: name one of this cluster that may be remapped, or none", from, s.why)}
	case !s.cidr.IsValid():
		return IPPlan{Problem: problem(reasons.WaitingForNetwork, "waiting for Network %s to be given a range", from)}
	}
	addr, ok := s.find(keyOf(&ip.ObjectMeta), owners)
	if !ok {
		return IPPlan{Problem: problem(reasons.Exhausted,
			"no address of %s, the range of Network %s, is free: %d are in use and %d are reserved; delete IPs that are not needed, or install with a larger range (chart value ipam.externalCIDR)",
			s.cidr, from, s.given, size(s.cidr)-s.usable)}
	}
	return IPPlan{Addr: addr, CIDR: s.cidr}
}

// checkAddress refuses addresses that no host, service or pod can have, such as loopback addresses: peers must not get access to them.
func checkAddress(text string) Problem {
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is4() {
		return problem(reasons.Invalid, "spec.ip %q is not an IPv4 address: create the IP again with one", text)
	}
	for _, prefix := range unusable() {
		if prefix.Contains(addr) {
			return problem(reasons.Invalid,
				"spec.ip %s is in %s, whose addresses mean something else on every host: create the IP again with the address of a host, a service or a pod",
				addr, prefix)
		}
	}
	return Problem{}
}

// source is a Network that gives addresses.
type source struct {
	// cidr is the range of the Network; invalid while it has none.
	cidr netip.Prefix
	// why is the reason why the Network provides no addresses; empty if it provides them.
	why string
	// first is the first address that can be given, as a number. usable is the number of addresses from there on.
	first, usable uint64
	// given is how many of the usable addresses are in use.
	given uint64
}

func newSource(object *ipamv1alpha1.Network) *source {
	s := &source{}
	switch {
	case object.Labels[ipamv1alpha1.LabelNetworkNotRemapped] == api.True:
		s.why = "is in use by the cluster itself"
	case object.Labels[api.LabelRemoteClusterID] != "":
		s.why = "is the range of a peer"
	}
	cidr, err := ParsePrefix(object.Status.CIDR)
	if err != nil {
		return s
	}
	s.cidr = cidr
	back := uint64(max(object.Spec.PreAllocated, 1))
	s.first = spanOf(cidr).first + back
	if size(cidr) > 2 {
		back++ // the last one too: some hosts treat it as a broadcast address
	}
	if size(cidr) > back {
		s.usable = size(cidr) - back
	}
	return s
}

func (s *source) count(addr netip.Addr) {
	if s != nil && s.cidr.IsValid() && s.cidr.Contains(addr) {
		if at := uint64(number(addr)); at >= s.first && at < s.first+s.usable {
			s.given++
		}
	}
}

// find returns the first free address, starting at a place that depends on the key.
func (s *source) find(key types.NamespacedName, owners map[netip.Addr]types.NamespacedName) (netip.Addr, bool) {
	if s.given >= s.usable {
		return netip.Addr{}, false
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key.String())) // never fails
	at := hash.Sum64() % s.usable
	for range s.usable {
		addr := fromNumber(uint32(s.first + at)) //nolint:gosec // inside the range
		if _, used := owners[addr]; !used {
			return addr, true
		}
		at = (at + 1) % s.usable
	}
	return netip.Addr{}, false
}
