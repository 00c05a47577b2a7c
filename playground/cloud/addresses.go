package cloud

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
)

// addressChanges returns the addresses to add to and to remove from an interface that has the addresses in have. Afterwards, the interface
// has exactly the addresses in want from the pool. addressChanges never removes addresses outside the pool.
func addressChanges(have, want []netip.Addr, pool []netip.Prefix) (add, remove []netip.Addr) {
	for _, address := range want {
		if !slices.Contains(have, address) {
			add = append(add, address)
		}
	}
	for _, address := range have {
		inPool := slices.ContainsFunc(pool, func(p netip.Prefix) bool { return p.Contains(address) })
		if inPool && !slices.Contains(want, address) {
			remove = append(remove, address)
		}
	}
	return add, remove
}

// setAddresses gives the interface exactly the wanted addresses of the pool. It returns its changes, even if it also returns an error.
// It adds each address as a single host (/32 or /128), which creates no route to a network. The kernel then answers ARP requests and
// neighbor solicitations for the address.
func setAddresses(device string, want []netip.Addr, pool []netip.Prefix) (added, removed []netip.Addr, err error) {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return nil, nil, fmt.Errorf("finding interface %s: %w", device, err)
	}
	listed, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the addresses of %s: %w", device, err)
	}
	var have []netip.Addr
	byAddress := map[netip.Addr]netlink.Addr{}
	for _, entry := range listed {
		if address, ok := netip.AddrFromSlice(entry.IP); ok {
			have = append(have, address.Unmap())
			byAddress[address.Unmap()] = entry
		}
	}
	add, remove := addressChanges(have, want, pool)
	var failures []error
	for _, address := range add {
		entry := &netlink.Addr{IPNet: netlink.NewIPNet(address.AsSlice())}
		if address.Is6() {
			entry.Flags = syscall.IFA_F_NODAD // nothing else uses the pool, and duplicate address detection would delay the first connection
		}
		if err := netlink.AddrAdd(link, entry); err != nil && !errors.Is(err, syscall.EEXIST) {
			failures = append(failures, fmt.Errorf("adding %s to %s: %w", address, device, err))
			continue
		}
		added = append(added, address)
	}
	for _, address := range remove {
		entry := byAddress[address]
		if err := netlink.AddrDel(link, &entry); err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			failures = append(failures, fmt.Errorf("removing %s from %s: %w", address, device, err))
			continue
		}
		removed = append(removed, address)
	}
	return added, removed, errors.Join(failures...)
}
