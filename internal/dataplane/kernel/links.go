package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
)

// find returns the link with that name; nil if there is none.
func (k *Kernel) find(name string) (netlink.Link, error) {
	if name == "" {
		return nil, nil
	}
	link, err := k.handle.LinkByName(name)
	if err != nil {
		return nil, gone(err)
	}
	return link, nil
}

// requireLink returns the link with that name; an error if there is none.
func (k *Kernel) requireLink(name string) (netlink.Link, error) {
	link, err := k.find(name)
	if err == nil && link == nil {
		err = fmt.Errorf("link %s: %w", name, unix.ENODEV)
	}
	return link, err
}

func (k *Kernel) readLinks(s *dataplane.State, own dataplane.Ownership) error {
	for _, name := range []string{own.Overlay, own.Tunnel} {
		link, err := k.find(name)
		if err != nil {
			return err
		}
		if link == nil {
			continue
		}
		if name == own.Overlay {
			s.Links = append(s.Links, overlay(link))
			if err := k.readNeighbours(s, link); err != nil {
				return err
			}
		} else {
			s.Links = append(s.Links, dataplane.Link{Name: name, Kind: dataplane.Tunnel, MTU: link.Attrs().MTU, Down: link.Attrs().Flags&net.FlagUp == 0})
		}
		addresses, err := retryDump(func() ([]netlink.Addr, error) { return k.handle.AddrList(link, netlink.FAMILY_V4) })
		if err != nil {
			return err
		}
		for _, a := range addresses {
			s.Addresses = append(s.Addresses, dataplane.Address{Link: name, Prefix: prefix(a.IPNet)})
		}
	}
	return nil
}

// prefix converts an IPv4 network of the standard library and keeps all bits of the address. Nil becomes 0.0.0.0/0.
func prefix(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(address(n.IP), bits)
}

// address converts an address of the standard library; nil becomes the zero Addr.
func address(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// network converts p to the type that the netlink library uses.
func network(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func overlay(link netlink.Link) dataplane.Link {
	attrs := link.Attrs()
	l := dataplane.Link{Name: attrs.Name, Kind: dataplane.Kind(link.Type()), MTU: attrs.MTU, Down: attrs.Flags&net.FlagUp == 0}
	if len(attrs.HardwareAddr) == len(l.MAC) {
		l.MAC = dataplane.MAC(attrs.HardwareAddr)
	}
	v, ok := link.(*netlink.Vxlan)
	if !ok {
		return l
	}
	l.VNI, l.Port, l.Local = v.VxlanId, uint16(v.Port), address(v.SrcAddr)
	var words []string
	for word, set := range map[string]bool{
		"learning": v.Learning, "group": v.Group != nil, "dev": v.VtepDevIndex != 0, "external": v.FlowBased, "proxy": v.Proxy, "rsc": v.RSC,
		"l2miss": v.L2miss, "l3miss": v.L3miss, "gbp": v.GBP, "ttl": v.TTL != 0, "tos": v.TOS != 0, "master": attrs.MasterIndex != 0,
	} {
		if set {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	l.Foreign = strings.Join(words, " ")
	return l
}

func (k *Kernel) setLink(l dataplane.Link) error {
	link, err := k.find(l.Name)
	switch {
	case err != nil:
		return err
	case link == nil && l.Kind == dataplane.Tunnel:
		return fmt.Errorf("the tunnel process has not created the link: %w", unix.ENODEV)
	case link == nil:
		return k.addVXLAN(l)
	}
	if is := overlay(link); l.Kind == dataplane.VXLAN {
		is.MTU, is.Down = l.MTU, false
		if is != l {
			return fmt.Errorf("a different link of that name exists: %w", unix.EEXIST)
		}
	}
	if link.Attrs().MTU != l.MTU {
		if err := k.handle.LinkSetMTU(link, l.MTU); err != nil {
			return fmt.Errorf("setting the MTU: %w", err)
		}
	}
	return k.handle.LinkSetUp(link)
}

func (k *Kernel) deleteLink(l dataplane.Link) error {
	if l.Kind == dataplane.Tunnel {
		return fmt.Errorf("the link belongs to the tunnel's process: %w", unix.EPERM)
	}
	link, err := k.find(l.Name)
	if err != nil || link == nil {
		return err
	}
	return gone(k.handle.LinkDel(link))
}

func (k *Kernel) setAddress(a dataplane.Address) error {
	link, err := k.requireLink(a.Link)
	if err != nil {
		return err
	}
	return k.handle.AddrReplace(link, &netlink.Addr{IPNet: network(a.Prefix)})
}

func (k *Kernel) deleteAddress(a dataplane.Address) error {
	link, err := k.find(a.Link)
	if err != nil || link == nil {
		return err
	}
	return gone(k.handle.AddrDel(link, &netlink.Addr{IPNet: network(a.Prefix)}))
}

// readNeighbours joins neighbour entries and forwarding entries by MAC. It reads only permanent neighbour entries, because the kernel
// creates others by itself.
func (k *Kernel) readNeighbours(s *dataplane.State, link netlink.Link) error {
	name, index := link.Attrs().Name, link.Attrs().Index
	hops, err := retryDump(func() ([]netlink.Neigh, error) { return k.handle.NeighList(index, netlink.FAMILY_V4) })
	if err != nil {
		return err
	}
	entries, err := retryDump(func() ([]netlink.Neigh, error) { return k.handle.NeighList(index, unix.AF_BRIDGE) })
	if err != nil {
		return err
	}
	underlays := make(map[dataplane.MAC][]netip.Addr, len(entries))
	for _, e := range entries {
		if len(e.HardwareAddr) == 6 && e.IP != nil {
			mac := dataplane.MAC(e.HardwareAddr)
			underlays[mac] = append(underlays[mac], address(e.IP))
		}
	}
	for _, h := range hops {
		if h.State&netlink.NUD_PERMANENT == 0 || len(h.HardwareAddr) != 6 {
			continue
		}
		n := dataplane.Neighbour{Link: name, IP: address(h.IP), MAC: dataplane.MAC(h.HardwareAddr)}
		if u := underlays[n.MAC]; len(u) > 0 {
			n.Underlay = u[0]
			underlays[n.MAC] = u[1:]
		}
		s.Neighbours = append(s.Neighbours, n)
	}
	for mac, rest := range underlays {
		for _, u := range rest {
			s.Neighbours = append(s.Neighbours, dataplane.Neighbour{Link: name, MAC: mac, Underlay: u})
		}
	}
	return nil
}

func nextHop(index int, n dataplane.Neighbour) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT, IP: n.IP.AsSlice(), HardwareAddr: n.MAC[:]}
}

func forwardingEntry(index int, n dataplane.Neighbour) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, State: netlink.NUD_PERMANENT, IP: n.Underlay.AsSlice(), HardwareAddr: n.MAC[:]}
}

func (k *Kernel) setNeighbour(n dataplane.Neighbour) error {
	link, err := k.requireLink(n.Link)
	if err != nil {
		return err
	}
	if n.Underlay.IsValid() {
		if err := k.handle.NeighSet(forwardingEntry(link.Attrs().Index, n)); err != nil {
			return fmt.Errorf("setting the forwarding entry: %w", err)
		}
	}
	if n.IP.IsValid() {
		return k.handle.NeighSet(nextHop(link.Attrs().Index, n))
	}
	return nil
}

func (k *Kernel) deleteNeighbour(n dataplane.Neighbour) error {
	link, err := k.find(n.Link)
	if err != nil || link == nil {
		return err
	}
	var errs []error
	if n.IP.IsValid() {
		errs = append(errs, gone(k.handle.NeighDel(nextHop(link.Attrs().Index, n))))
	}
	if n.Underlay.IsValid() {
		errs = append(errs, gone(k.handle.NeighDel(forwardingEntry(link.Attrs().Index, n))))
	}
	return errors.Join(errs...)
}
