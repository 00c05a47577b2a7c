package ipam

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/reasons"
)

// DefaultPools returns the pools for remapped ranges that apply unless the installation sets others.
func DefaultPools() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("172.16.0.0/12"),
	}
}

// Host is an address in use around the cluster, such as that of a node or an API server. No chosen range contains it.
type Host struct {
	// Name describes, in messages, the owner of the address.
	Name string
	Addr netip.Addr
}

// NetworkObjects are all the inputs of the plan of ranges.
type NetworkObjects struct {
	Networks []ipamv1alpha1.Network
	// Pools are the ranges from which remapped ranges are chosen, in order of preference.
	Pools []netip.Prefix
	// Hosts are the addresses in use around the cluster.
	Hosts []Host
}

// NetworkPlan is the plan for a Network.
type NetworkPlan struct {
	// CIDR is the range of the Network; invalid if it can have none.
	CIDR netip.Prefix
	// Instead is the reason why the plan chose another range than the requested one: "overlaps 10.70.0.0/16 (Network liqo/external-cidr)". It is
	// empty if the Network gets the requested range, or if it had a range before.
	Instead string
	// Problem is zero if there is none. For a Network with a range, it describes a conflict of the range.
	Problem Problem
}

// network is a Network during planning.
type network struct {
	*ipamv1alpha1.Network
	wanted netip.Prefix
	// given is the range in the status; invalid while there is none.
	given netip.Prefix
	// fixed is true if the range is in use as it is and cannot be remapped.
	fixed bool
	// tolerant is true if the range may overlap other fixed ranges of this cluster.
	tolerant bool
	// local is true if the range belongs to this cluster, not to a peer.
	local bool
	// negotiated is true if only the peer named the range. The peer must not choose which addresses are routed to it.
	negotiated bool
	// reported is true if only the peer named the range, and liqoctl read it with the rights of an administrator of both clusters.
	reported bool
}

func (n *network) String() string { return fmt.Sprintf("Network %s", keyOf(&n.ObjectMeta)) }

// taken is a range in use, with its owner.
type taken struct {
	prefix netip.Prefix
	by     *network // nil if the owner is not a Network
	name   string
}

// Networks plans the ranges of all Networks. Fixed ones (label ipam.liqo.io/network-not-remapped) get the range in their spec. A
// Network that has a range keeps it. Every other Network gets the wanted range if nothing overlaps it. Otherwise it gets the next
// free range of the same length in the pools, starting after the wanted one. Wanted ranges take precedence over chosen ones, and
// Networks of this cluster over those of peers.
//
// If only the peer named a range (label ipam.liqo.io/network-negotiated), the plan uses only its length. It always chooses the remapped range in the
// pools, away from the addresses of hosts. Neither the addresses that the peer names, nor the number of its changes, influence the choice. If such a
// Network already has a range outside the pools, or one that overlaps addresses that this cluster needs, the plan reports a problem. The plan handles
// these Networks after all others.
//
// If liqoctl read a range in the peer (label ipam.liqo.io/network-reported), the plan also chooses another range if it overlaps a network around the hosts.
//
// Two ranges never overlap, except shared and reserved ranges of this cluster. The plan depends only on the objects, not on their
// order. Planning again with the given ranges changes nothing.
func Networks(objects NetworkObjects) map[types.NamespacedName]NetworkPlan {
	out := make(map[types.NamespacedName]NetworkPlan, len(objects.Networks))
	objects.Hosts = slices.DeleteFunc(slices.Clone(objects.Hosts), func(h Host) bool { return !h.Addr.Is4() })
	slices.SortFunc(objects.Hosts, func(a, b Host) int { return cmp.Or(a.Addr.Compare(b.Addr), strings.Compare(a.Name, b.Name)) })
	var settled, negotiated, pending []*network
	var inUse []taken
	for _, object := range ordered(objects.Networks) {
		n, problem := read(object)
		switch {
		case problem != Problem{}:
			out[keyOf(&n.ObjectMeta)] = NetworkPlan{CIDR: n.given, Problem: problem}
			if n.given.IsValid() { // a range in the status stays in use
				inUse = append(inUse, taken{n.given, n, n.String()})
			}
		case n.negotiated && n.given.IsValid():
			negotiated = append(negotiated, n)
		case n.fixed || n.given.IsValid():
			settled = append(settled, n)
		case n.DeletionTimestamp.IsZero():
			pending = append(pending, n)
		}
	}
	for _, n := range append(settled, negotiated...) {
		plan := n.settle(inUse, objects.Hosts, objects.Pools)
		inUse = append(inUse, taken{n.at(), n, n.String()})
		out[keyOf(&n.ObjectMeta)] = plan
	}
	for _, prefix := range unusable() {
		inUse = append(inUse, taken{prefix, nil, "a range that no network may use"})
	}
	for _, host := range objects.Hosts {
		inUse = append(inUse, taken{netip.PrefixFrom(host.Addr, 32), nil, "the address of " + host.Name})
	}
	slices.SortFunc(pending, func(a, b *network) int { return older(&a.ObjectMeta, &b.ObjectMeta, a.local, b.local) })
	choose(pending, inUse, neighbourhoods(objects.Hosts), objects, out)
	return out
}

// neighbourhood is the assumed prefix length of the network of a host. The actual size of the network of a node or of an API server is unknown, and
// so are the addresses of its routers, resolvers and storage. If the assumed network is too large, a peer only gets another range.
const neighbourhood = 16

// neighbourhoods returns the private networks that the hosts may be part of.
func neighbourhoods(hosts []Host) []taken {
	var near []taken
	for _, host := range hosts {
		if prefix := netip.PrefixFrom(host.Addr, neighbourhood).Masked(); Private(prefix) && overlapped(prefix, near) == nil {
			near = append(near, taken{prefix, nil, "the network around " + host.Name})
		}
	}
	return near
}

// ordered returns the Networks in the order of planning.
func ordered(networks []ipamv1alpha1.Network) []*ipamv1alpha1.Network {
	out := make([]*ipamv1alpha1.Network, len(networks))
	for i := range networks {
		out[i] = &networks[i]
	}
	slices.SortFunc(out, func(a, b *ipamv1alpha1.Network) int {
		return older(&a.ObjectMeta, &b.ObjectMeta, a.Status.CIDR != "", b.Status.CIDR != "")
	})
	return out
}

// choose gives ranges to the Networks that have none. It avoids the ranges in near if there is room elsewhere. A reported range that overlaps them never keeps
// its addresses.
func choose(pending []*network, inUse, near []taken, objects NetworkObjects, out map[types.NamespacedName]NetworkPlan) {
	pools := objects.Pools
	var elsewhere []*network
	for _, n := range pending {
		if n.hindrance(inUse, near) != "" {
			elsewhere = append(elsewhere, n)
			continue
		}
		inUse = append(inUse, taken{n.wanted, n, n.String()})
		out[keyOf(&n.ObjectMeta)] = NetworkPlan{CIDR: n.wanted}
	}
	for _, n := range elsewhere {
		instead, from := n.hindrance(inUse, near), n.wanted
		if n.negotiated || n.reported { // the place does not follow from what the peer named
			from = searchStart(n, objects)
		}
		chosen, ok := next(from, slices.Concat(near, inUse), pools)
		if !ok {
			chosen, ok = next(from, inUse, pools)
		}
		if !ok {
			out[keyOf(&n.ObjectMeta)] = NetworkPlan{Problem: problem(reasons.Exhausted,
				"spec.cidr %s %s, and no other range of length /%d is free in the pools %s: delete Networks that are not needed, or add a pool (chart value ipam.pools)",
				n.wanted, instead, n.wanted.Bits(), listed(pools))}
			continue
		}
		inUse = append(inUse, taken{chosen, n, n.String()})
		out[keyOf(&n.ObjectMeta)] = NetworkPlan{CIDR: chosen, Instead: instead}
	}
}

// hindrance returns the reason why a Network does not get its requested range; empty if it gets that range. The argument near has the networks around the
// hosts.
func (n *network) hindrance(inUse, near []taken) string {
	if n.reported {
		inUse = slices.Concat(inUse, near)
	}
	if in := overlapped(n.wanted, inUse); in != nil {
		return fmt.Sprintf("overlaps %s (%s)", in.prefix, in.name)
	}
	if n.negotiated {
		return "was named by the peer alone, which must not choose the addresses that are routed to it"
	}
	return ""
}

// searchStart returns the start of the search in the pools: a range of the requested length, the same for all ranges of one peer. It depends on the
// UIDs of this cluster's own Networks, which peers do not know.
func searchStart(n *network, objects NetworkObjects) netip.Prefix {
	var known []string
	for i := range objects.Networks {
		if own := &objects.Networks[i]; own.Labels[ipamv1alpha1.LabelNetworkType] != "" {
			known = append(known, string(own.UID))
		}
	}
	slices.Sort(known)
	hash := fnv.New64a()
	for _, text := range append(known, n.Namespace) {
		_, _ = hash.Write([]byte(text + "/")) // never fails
	}
	var all uint64
	for _, pool := range objects.Pools {
		all += size(pool)
	}
	if all == 0 {
		return n.wanted
	}
	at := hash.Sum64() % all
	for _, pool := range objects.Pools {
		if at < size(pool) {
			return blockAt(spanOf(pool).first+at, n.wanted.Bits()).Masked()
		}
		at -= size(pool)
	}
	return n.wanted
}

// next returns the first free range of the same length as wanted. It searches after wanted in the pool that contains it, then
// from the beginning of that pool, then in the other pools.
func next(wanted netip.Prefix, inUse []taken, pools []netip.Prefix) (netip.Prefix, bool) {
	spans := make([]span, len(inUse))
	for i, t := range inUse {
		spans[i] = spanOf(t.prefix)
	}
	spans = merged(spans)
	for _, pool := range pools {
		if pool.Contains(wanted.Addr()) {
			if chosen, ok := free(spanOf(pool), spanOf(wanted).last+1, wanted.Bits(), spans); ok {
				return chosen, true
			}
		}
	}
	for _, home := range []bool{true, false} {
		for _, pool := range pools {
			if pool.Contains(wanted.Addr()) != home {
				continue
			}
			if chosen, ok := free(spanOf(pool), 0, wanted.Bits(), spans); ok {
				return chosen, true
			}
		}
	}
	return netip.Prefix{}, false
}

// overlapped returns the range in use that overlaps prefix; nil if there is none. Of several, it returns the one with the lowest address, so that
// messages do not depend on the age of Networks.
func overlapped(prefix netip.Prefix, inUse []taken) *taken {
	var lowest *taken
	for i := range inUse {
		if in := &inUse[i]; in.prefix.Overlaps(prefix) && (lowest == nil || in.prefix.Compare(lowest.prefix) < 0) {
			lowest = in
		}
	}
	return lowest
}

// at returns the range of a Network that is fixed or already has a range.
func (n *network) at() netip.Prefix {
	if n.fixed {
		return n.wanted
	}
	return n.given
}

// settle plans a Network that is fixed or already has a range. The ranges in before belong to Networks that take precedence.
func (n *network) settle(before []taken, hosts []Host, pools []netip.Prefix) NetworkPlan {
	plan := NetworkPlan{CIDR: n.at()}
	for i := range before {
		other := before[i].by
		if !before[i].prefix.Overlaps(plan.CIDR) || n.fixed && other.fixed && (n.tolerant || other.tolerant) {
			continue
		}
		plan.Problem = problem(reasons.Conflict, "%s overlaps %s of %s: delete one of the two Networks", plan.CIDR, before[i].prefix, before[i].name)
		if n.fixed && !n.tolerant && !n.given.IsValid() {
			plan.CIDR = netip.Prefix{} // nothing uses it yet
		}
		return plan
	}
	if n.fixed {
		return plan
	}
	if n.negotiated && !within(pools, plan.CIDR) {
		plan.Problem = problem(reasons.Conflict,
			"%s is in none of the pools %s, and only the peer named it: delete the Network, then Liqo chooses another range", plan.CIDR, listed(pools))
		return plan
	}
	for _, prefix := range unusable() {
		if prefix.Overlaps(plan.CIDR) {
			plan.Problem = problem(reasons.Conflict, "%s overlaps %s, which no network may use: delete the Network and create it again", plan.CIDR, prefix)
		}
	}
	for _, host := range hosts {
		if plan.CIDR.Contains(host.Addr) {
			plan.Problem = problem(reasons.Conflict, "%s holds %s, the address of %s: delete the Network and create it again", plan.CIDR, host.Addr, host.Name)
			break
		}
	}
	return plan
}

// read parses a Network. If it returns a problem, only what could be parsed is set in the result.
func read(object *ipamv1alpha1.Network) (*network, Problem) {
	n := &network{Network: object}
	n.fixed = object.Labels[ipamv1alpha1.LabelNetworkNotRemapped] == api.True
	kind := object.Labels[ipamv1alpha1.LabelNetworkType]
	n.local = kind != ""
	n.negotiated = object.Labels[ipamv1alpha1.LabelNetworkNegotiated] == api.True && !n.fixed
	n.reported = object.Labels[ipamv1alpha1.LabelNetworkReported] == api.True && !n.fixed
	n.tolerant = object.Labels[ipamv1alpha1.LabelNetworkShared] == api.True || kind == ipamv1alpha1.NetworkTypeReserved
	var err error
	if object.Status.CIDR != "" {
		if n.given, err = ParsePrefix(object.Status.CIDR); err != nil {
			return n, problem(reasons.Invalid, "status.cidr %v: delete the Network and create it again", err)
		}
	}
	if n.wanted, err = ParsePrefix(object.Spec.CIDR); err != nil {
		return n, problem(reasons.Invalid, "spec.cidr %v", err)
	}
	switch {
	case n.given.IsValid() && n.given.Bits() != n.wanted.Bits():
		return n, problem(reasons.Invalid, "status.cidr %s has another length than spec.cidr %s: delete the Network and create it again", n.given, n.wanted)
	case uint64(max(object.Spec.PreAllocated, 0)) > size(n.wanted):
		return n, problem(reasons.Invalid, "spec.preAllocated is %d, but spec.cidr %s has only %d addresses: create the Network again with fewer",
			object.Spec.PreAllocated, n.wanted, size(n.wanted))
	}
	return n, Problem{}
}

// ParsePrefix parses an IPv4 range in CIDR notation. Its error says how to write the range.
func ParsePrefix(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q is not a CIDR: write it as address/bits, for example 10.70.0.0/16", text)
	case !prefix.Addr().Is4():
		return netip.Prefix{}, fmt.Errorf("%s is an IPv6 range, which this version does not support: give an IPv4 one", text)
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("%s has bits set after its prefix: write %s", text, prefix.Masked())
	}
	return prefix, nil
}
