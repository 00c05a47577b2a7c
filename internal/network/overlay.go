package network

import (
	"cmp"
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/dataplane"
)

// overlay is the link by which nodes and gateway pods reach each other. It has no addresses of its own: the next hop of a route is a
// member's address below it, and the hardware address follows from that.
func overlay(f *Facts, local netip.Addr, mtu int) dataplane.Link {
	return dataplane.Link{Name: dataplane.OverlayLink, Kind: dataplane.VXLAN, MTU: mtu - OverlayOverhead,
		VNI: OverlayVNI, Port: f.overlayPort(), Local: local, MAC: hardware(local)}
}

// members are all addresses of nodes, and the gateway pods of peers but the one.
func (f *Facts) members(except string) []netip.Addr {
	var all []netip.Addr
	for _, n := range f.Nodes {
		all = append(all, n.Addresses...)
	}
	for i := range f.Peers {
		if f.Peers[i].ClusterID == except {
			continue
		}
		for _, c := range f.Peers[i].Candidates {
			all = append(all, c.IP)
		}
	}
	return all
}

// neighbour is another member of the overlay.
func neighbour(ip netip.Addr) dataplane.Neighbour {
	return dataplane.Neighbour{Link: dataplane.OverlayLink, IP: ip, MAC: hardware(ip), Underlay: ip}
}

// neighbours are other members of the overlay, each once, without the host itself.
func neighbours(self netip.Addr, members []netip.Addr) []dataplane.Neighbour {
	var all []dataplane.Neighbour
	for _, p := range singles(members) {
		if p.Addr() != self {
			all = append(all, neighbour(p.Addr()))
		}
	}
	return all
}

// hardware is the hardware address of a member: locally administered, and its address.
func hardware(ip netip.Addr) dataplane.MAC {
	a := ip.As4()
	return dataplane.MAC{0x02, 0x4c, a[0], a[1], a[2], a[3]}
}

func (f *Facts) overlayPort() uint16 { return cmp.Or(f.Options.OverlayPort, DefaultOverlayPort) }

func (f *Facts) rulePriority() int { return cmp.Or(f.Options.RulePriority, DefaultRulePriority) }

// routeMTU is the MTU of routes to the peer on a node whose link has this one. A node, unlike a gateway, sends "fragmentation needed"
// before anything is translated, so that the pod understands it.
func (p *Peer) routeMTU(link int) int {
	mtu := p.TunnelMTU
	if mtu == 0 { // nobody told yet: what is left when the gateway pod's link is an overlay as well
		mtu = TunnelMTU(p, link-OverlayOverhead)
	}
	return min(mtu, link-OverlayOverhead)
}

// routes by table and destination: the first one counts.
type routes map[routeKey]dataplane.Route

type routeKey struct {
	table       int
	destination netip.Prefix
}

func (r routes) add(route dataplane.Route) {
	key := routeKey{route.Table, route.Destination}
	if _, taken := r[key]; !taken {
		r[key] = route
	}
}

func (r routes) all() []dataplane.Route {
	all := make([]dataplane.Route, 0, len(r))
	for _, route := range r {
		all = append(all, route)
	}
	slices.SortFunc(all, func(a, b dataplane.Route) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), comparePrefix(a.Destination, b.Destination))
	})
	return all
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// singles are the elements of a set of addresses, each once.
func singles(addresses []netip.Addr) []netip.Prefix {
	all := make([]netip.Prefix, len(addresses))
	for i, a := range addresses {
		all[i] = single(a)
	}
	return sorted(all)
}

// disjoint are the elements of a set of prefixes: those that no other one covers.
func disjoint(prefixes []netip.Prefix) []netip.Prefix {
	var all []netip.Prefix
	for _, p := range sorted(prefixes) { // a prefix comes after the one that covers it
		if !inside(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// cover are the elements of a set of prefixes and of single addresses.
func cover(prefixes []netip.Prefix, addresses []netip.Addr) []netip.Prefix {
	return disjoint(slices.Concat(prefixes, singles(addresses)))
}

func sorted(prefixes []netip.Prefix) []netip.Prefix {
	all := make([]netip.Prefix, len(prefixes))
	for i, p := range prefixes {
		all[i] = p.Masked()
	}
	slices.SortFunc(all, comparePrefix)
	return slices.Compact(all)
}

func comparePrefix(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}
