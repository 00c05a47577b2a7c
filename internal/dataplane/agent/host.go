package agent

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Underlay tells the MTU of the link that has an address, in bytes, and the IPv4 addresses of all links but those named.
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
			mtu = links[i].Attrs().MTU
		}
	}
	if mtu == 0 {
		return 0, nil, fmt.Errorf("looking for the link with address %s: no link has it", ip)
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return mtu, slices.Compact(addresses), nil
}
