package agent

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Underlay returns the MTU in bytes of the link that has the address ip, and the IPv4 addresses of all links except the named ones. If a
// default route through the link has a lower MTU, Underlay returns that one: some pod networks lower the MTU on the route only. It returns
// an error if no link has the address.
func Underlay(ip netip.Addr, except ...string) (mtu int, addresses []netip.Addr, err error) {
	links, err := netlink.LinkList()
	if err != nil {
		return 0, nil, fmt.Errorf("listing links: %w", err)
	}
	found, err := netlink.AddrList(nil, unix.AF_INET)
	if err != nil {
		return 0, nil, fmt.Errorf("listing addresses: %w", err)
	}
	return underlay(ip, links, found, func(link netlink.Link) ([]netlink.Route, error) { return netlink.RouteList(link, unix.AF_INET) }, except...)
}

// underlay is Underlay for links, their addresses, and the routes of each link.
func underlay(
	ip netip.Addr, links []netlink.Link, found []netlink.Addr, routesOf func(netlink.Link) ([]netlink.Route, error), except ...string,
) (mtu int, addresses []netip.Addr, err error) {
	for _, a := range found {
		addr, ok := netip.AddrFromSlice(a.IP.To4())
		i := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Attrs().Index == a.LinkIndex })
		if !ok || i < 0 || slices.Contains(except, links[i].Attrs().Name) {
			continue
		}
		addresses = append(addresses, addr)
		if addr == ip {
			routes, err := routesOf(links[i])
			if err != nil {
				return 0, nil, fmt.Errorf("listing routes of link %s: %w", links[i].Attrs().Name, err)
			}
			mtu = routedMTU(links[i].Attrs().MTU, routes)
		}
	}
	if mtu == 0 {
		return 0, nil, fmt.Errorf("looking for the link with address %s: no link has it", ip)
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return mtu, slices.Compact(addresses), nil
}

// routedMTU returns the MTU of a link, lowered to the MTU of its default routes.
func routedMTU(mtu int, routes []netlink.Route) int {
	for i := range routes {
		r := &routes[i]
		everywhere := r.Dst == nil
		if !everywhere {
			ones, _ := r.Dst.Mask.Size()
			everywhere = ones == 0
		}
		if everywhere && r.MTU > 0 {
			mtu = min(mtu, r.MTU)
		}
	}
	return mtu
}

// Dependency is a prefix that a host needs to reach other hosts.
type Dependency struct {
	Prefix netip.Prefix
	// Name describes the dependency for people: "the network of link eth0", "a next hop", "the destination of a route", "a resolver".
	Name string
	// Routed means that the prefix is the destination of a route, and nothing else that the host needs.
	Routed bool
}

// Dependencies returns the prefixes that a host needs to reach other hosts, each once, in the order of their addresses. They are the networks of
// its links, the next hops and the destinations of the routes in all its routing tables, and the name servers in the text resolvConf. The networks and
// routes of the links named by except are left out.
func Dependencies(resolvConf string, except ...string) ([]Dependency, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	names, separate := map[int]string{}, map[int]bool{}
	for _, link := range links {
		names[link.Attrs().Index] = link.Attrs().Name
		if vrf, ok := link.(*netlink.Vrf); ok { // only packets of its own links use its table
			separate[int(vrf.Table)] = true
		}
	}
	all := resolvers(resolvConf)
	addresses, err := netlink.AddrList(nil, unix.AF_INET)
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range addresses {
		if addr, ok := netip.AddrFromSlice(a.IP.To4()); ok && !slices.Contains(except, names[a.LinkIndex]) {
			ones, _ := a.Mask.Size()
			all[netip.PrefixFrom(addr, ones).Masked()] = "the network of link " + names[a.LinkIndex]
		}
	}
	routes, err := netlink.RouteListFiltered(unix.AF_INET, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	routes = slices.DeleteFunc(routes, func(r netlink.Route) bool { return separate[r.Table] })
	hops, destinations := routed(routes, func(link int) bool { return slices.Contains(except, names[link]) })
	return ordered(all, hops, destinations), nil
}

// ordered returns the dependencies of a host. A prefix that is in several of the arguments is described by the first.
func ordered(described map[netip.Prefix]string, hops, destinations map[netip.Prefix]bool) []Dependency {
	found := map[netip.Prefix]Dependency{}
	for prefix := range destinations {
		found[prefix] = Dependency{Prefix: prefix, Name: "the destination of a route", Routed: true}
	}
	for prefix := range hops {
		found[prefix] = Dependency{Prefix: prefix, Name: "a next hop"}
	}
	for prefix, name := range described {
		found[prefix] = Dependency{Prefix: prefix, Name: name}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Dependency) int { return a.Prefix.Compare(b.Prefix) })
}

// routed returns the next hops and the destinations of unicast routes, such as a network behind a router or a VPN, whichever program made the routes. It leaves
// out default routes, also as two halves, and the routes of links for which except returns true.
func routed(routes []netlink.Route, except func(link int) bool) (hops, destinations map[netip.Prefix]bool) {
	hops, destinations = map[netip.Prefix]bool{}, map[netip.Prefix]bool{}
	for i := range routes {
		r := &routes[i]
		if r.Type != unix.RTN_UNICAST || except(r.LinkIndex) {
			continue
		}
		gateways := []net.IP{r.Gw}
		for _, hop := range r.MultiPath {
			gateways = append(gateways, hop.Gw)
		}
		for _, hop := range gateways {
			if addr, ok := netip.AddrFromSlice(hop.To4()); ok {
				hops[netip.PrefixFrom(addr, 32)] = true
			}
		}
		if r.Dst == nil {
			continue
		}
		addr, ok := netip.AddrFromSlice(r.Dst.IP.To4())
		if ones, _ := r.Dst.Mask.Size(); ok && ones > 1 {
			destinations[netip.PrefixFrom(addr, ones).Masked()] = true
		}
	}
	return hops, destinations
}

// resolvers returns the IPv4 name servers in the text of a resolv.conf (resolv.conf(5)).
func resolvers(text string) map[netip.Prefix]string {
	all := map[netip.Prefix]string{}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
			if addr, err := netip.ParseAddr(fields[1]); err == nil && addr.Is4() {
				all[netip.PrefixFrom(addr, 32)] = "a resolver"
			}
		}
	}
	return all
}
