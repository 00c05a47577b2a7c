package network

import (
	"cmp"
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/dataplane"
)

// overlay returns the link through which nodes and gateway pods reach each other. It has no addresses of its own. The next hop of a route
// is the underlay address of a member, and the hardware address is derived from it.
func overlay(f *Facts, local netip.Addr, mtu int) dataplane.Link {
	return dataplane.Link{Name: dataplane.OverlayLink, Kind: dataplane.VXLAN, MTU: mtu - OverlayOverhead,
		VNI: OverlayVNI, Port: f.overlayPort(), Local: local, MAC: hardware(local)}
}

// members returns all addresses of nodes and of gateway pods, except the gateway pods of one peer.
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

// neighbour returns the entry of another member of the overlay.
func neighbour(ip netip.Addr) dataplane.Neighbour {
	return dataplane.Neighbour{Link: dataplane.OverlayLink, IP: ip, MAC: hardware(ip), Underlay: ip}
}

// neighbours returns the entries of other members of the overlay, without duplicates and without the host itself.
func neighbours(self netip.Addr, members []netip.Addr) []dataplane.Neighbour {
	var all []dataplane.Neighbour
	for _, p := range singles(members) {
		if p.Addr() != self {
			all = append(all, neighbour(p.Addr()))
		}
	}
	return all
}

// hardware returns the hardware address of a member: locally administered, and with the member's IP address in its last four bytes.
func hardware(ip netip.Addr) dataplane.MAC {
	a := ip.As4()
	return dataplane.MAC{0x02, 0x4c, a[0], a[1], a[2], a[3]}
}

func (f *Facts) overlayPort() uint16 { return cmp.Or(f.Options.OverlayPort, DefaultOverlayPort) }

func (f *Facts) rulePriority() int { return cmp.Or(f.Options.RulePriority, DefaultRulePriority) }

// routeMTU returns the MTU in bytes of routes to the peer, on a node whose link has the MTU link. A node, unlike a gateway, sends
// "fragmentation needed" before it translates anything, so the pod recognizes its packet in the error.
func (p *Peer) routeMTU(link int) int {
	mtu := p.TunnelMTU
	if mtu == 0 { // not reported yet: assume that the gateway pod's link is an overlay as well
		mtu = TunnelMTU(p, link-OverlayOverhead)
	}
	return min(mtu, link-OverlayOverhead)
}

// routes maps a table and a destination to a route. The first route that is added takes precedence.
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
		return cmp.Or(cmp.Compare(a.Table, b.Table), a.Destination.Compare(b.Destination))
	})
	return all
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// singles returns the elements of a set of addresses, without duplicates.
func singles(addresses []netip.Addr) []netip.Prefix {
	all := make([]netip.Prefix, len(addresses))
	for i, a := range addresses {
		all[i] = single(a)
	}
	return sorted(all)
}

// disjoint returns the elements of a set of prefixes, without those that another prefix covers.
func disjoint(prefixes []netip.Prefix) []netip.Prefix {
	var all []netip.Prefix
	for _, p := range sorted(prefixes) { // a prefix comes after the one that covers it
		if !inside(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// cover returns the elements of a set of prefixes and single addresses.
func cover(prefixes []netip.Prefix, addresses []netip.Addr) []netip.Prefix {
	return disjoint(slices.Concat(prefixes, singles(addresses)))
}

func sorted(prefixes []netip.Prefix) []netip.Prefix {
	all := make([]netip.Prefix, len(prefixes))
	for i, p := range prefixes {
		all[i] = p.Masked()
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all)
}
