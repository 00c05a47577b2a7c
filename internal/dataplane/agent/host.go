package agent

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Underlay tells the MTU of the link that has an address, in bytes, or that of its default route where that is less, as some pod networks
// leave room on the route only; and the IPv4 addresses of all links but those named.
func Underlay(ip netip.Addr, except ...string) (mtu int, addresses []netip.Addr, err error) {
	links, err := netlink.LinkList()
	if err != nil {
		return 0, nil, fmt.Errorf("listing links: %w", err)
	}
	found, err := netlink.AddrList(nil, unix.AF_INET)
	if err != nil {
		return 0, nil, fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range found {
		addr, ok := netip.AddrFromSlice(a.IP.To4())
		i := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Attrs().Index == a.LinkIndex })
		if !ok || i < 0 || slices.Contains(except, links[i].Attrs().Name) {
			continue
		}
		addresses = append(addresses, addr)
		if addr == ip {
			routes, err := netlink.RouteList(links[i], unix.AF_INET)
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

// routedMTU is what default routes leave of a link's MTU.
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
