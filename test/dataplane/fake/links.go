package fake

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"liqo.io/liqo/internal/dataplane"
)

// AddTunnel does what the process of the tunnel does at its start: it creates a link, which is down, and its WireGuard device.
func (k *Kernel) AddTunnel(name string, mtu int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.links = append(k.links, dataplane.Link{Name: name, Kind: dataplane.Tunnel, MTU: mtu, Down: true})
	k.devices[name] = &dataplane.WireGuard{Link: name}
	k.changed(dataplane.Change{Link: &dataplane.Link{Name: name}})
}

// RemoveLink deletes any link, as another program could, together with its addresses, neighbours, routes and device.
func (k *Kernel) RemoveLink(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remove(name)
	k.changed(dataplane.Change{Link: &dataplane.Link{Name: name}})
}

// SetDown takes a link down, as another program could. The link loses its routes and neighbour entries and keeps its forwarding entries.
func (k *Kernel) SetDown(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := k.find(name); i >= 0 {
		k.links[i].Down = true
		k.loseHops(name)
		k.loseRoutes(name)
	}
	k.changed(dataplane.Change{Link: &dataplane.Link{Name: name}})
}

func (k *Kernel) find(name string) int {
	return slices.IndexFunc(k.links, func(l dataplane.Link) bool { return l.Name == name })
}

func (k *Kernel) remove(name string) {
	k.links = slices.DeleteFunc(k.links, func(l dataplane.Link) bool { return l.Name == name })
	k.inet = slices.DeleteFunc(k.inet, func(a dataplane.Address) bool { return a.Link == name })
	for f := range k.fdb {
		if f.link == name {
			delete(k.fdb, f)
		}
	}
	delete(k.devices, name)
	k.loseHops(name)
	k.loseRoutes(name)
}

func (k *Kernel) loseHops(link string) {
	for h := range k.hops {
		if h.link == link {
			delete(k.hops, h)
		}
	}
}

func (k *Kernel) loseRoutes(link string) {
	k.routes = slices.DeleteFunc(k.routes, func(r dataplane.Route) bool { return r.Link == link })
}

func (k *Kernel) setLink(l dataplane.Link) error {
	i := k.find(l.Name)
	switch {
	case i < 0 && l.Kind == dataplane.Tunnel:
		return fmt.Errorf("the tunnel process has not created the link: %w", syscall.ENODEV)
	case i < 0:
		if slices.ContainsFunc(k.links, func(o dataplane.Link) bool { return o.VNI == l.VNI && o.Port == l.Port && o.Kind == dataplane.VXLAN }) {
			return syscall.EEXIST
		}
		k.links = append(k.links, l)
		return nil
	}
	changed := k.links[i]
	changed.MTU, changed.Down = l.MTU, l.Down
	if l.Kind == dataplane.VXLAN && changed != l {
		return fmt.Errorf("a different link of that name exists: %w", syscall.EEXIST)
	}
	k.links[i] = changed
	return nil
}

func (k *Kernel) deleteLink(l dataplane.Link) error {
	if l.Kind == dataplane.Tunnel {
		return fmt.Errorf("the link belongs to the tunnel's process: %w", syscall.EPERM)
	}
	k.remove(l.Name)
	return nil
}

func (k *Kernel) setAddress(a dataplane.Address) error {
	if k.find(a.Link) < 0 {
		return syscall.ENODEV
	}
	if !slices.Contains(k.inet, a) {
		k.inet = append(k.inet, a)
	}
	return nil
}

// deleteAddress also deletes the secondary addresses of the same network. After the last address of a link, it deletes the routes and next
// hops of the link.
func (k *Kernel) deleteAddress(a dataplane.Address) error {
	i := slices.Index(k.inet, a)
	if i < 0 {
		return nil
	}
	same := func(o dataplane.Address) bool { return o.Link == a.Link && o.Prefix.Masked() == a.Prefix.Masked() }
	if !slices.ContainsFunc(k.inet[:i], same) {
		k.inet = slices.DeleteFunc(k.inet, same)
	} else {
		k.inet = slices.Delete(k.inet, i, i+1)
	}
	if !slices.ContainsFunc(k.inet, func(o dataplane.Address) bool { return o.Link == a.Link }) {
		k.loseRoutes(a.Link)
		k.loseHops(a.Link)
	}
	k.routes = slices.DeleteFunc(k.routes, func(r dataplane.Route) bool {
		return r.Source.IsValid() && !k.isLocal(r.Source) || r.Link == a.Link && r.Via.IsValid() && !r.OnLink && !k.reaches(r.Link, r.Via)
	})
	return nil
}

func (k *Kernel) isLocal(ip netip.Addr) bool {
	return slices.Contains(k.local, ip) || slices.ContainsFunc(k.inet, func(a dataplane.Address) bool { return a.Prefix.Addr() == ip })
}

// reaches reports whether ip is in the network of one of the link's addresses.
func (k *Kernel) reaches(link string, ip netip.Addr) bool {
	return slices.ContainsFunc(k.inet, func(a dataplane.Address) bool { return a.Link == link && a.Prefix.Contains(ip) })
}

func (k *Kernel) neighbours(link string) []dataplane.Neighbour {
	var out []dataplane.Neighbour
	used := map[forwarding]bool{}
	for h, mac := range k.hops {
		if h.link != link {
			continue
		}
		f := forwarding{link, mac}
		used[f] = true
		out = append(out, dataplane.Neighbour{Link: link, IP: h.ip, MAC: mac, Underlay: k.fdb[f]})
	}
	for f, underlay := range k.fdb {
		if f.link == link && !used[f] {
			out = append(out, dataplane.Neighbour{Link: link, MAC: f.mac, Underlay: underlay})
		}
	}
	return out
}

func (k *Kernel) setNeighbour(n dataplane.Neighbour) error {
	if k.find(n.Link) < 0 {
		return syscall.ENODEV
	}
	if n.IP.IsValid() {
		k.hops[hop{n.Link, n.IP}] = n.MAC
	}
	if n.Underlay.IsValid() {
		k.fdb[forwarding{n.Link, n.MAC}] = n.Underlay
	}
	return nil
}

func (k *Kernel) deleteNeighbour(n dataplane.Neighbour) error {
	if n.IP.IsValid() {
		delete(k.hops, hop{n.Link, n.IP})
	}
	if n.Underlay.IsValid() {
		delete(k.fdb, forwarding{n.Link, n.MAC})
	}
	return nil
}

func (k *Kernel) setRoute(r dataplane.Route) error {
	if r.Type == dataplane.Unicast {
		i := k.find(r.Link)
		switch {
		case i < 0:
			return syscall.ENODEV
		case k.links[i].Down:
			return syscall.ENETDOWN
		case r.Via.IsValid() && !r.OnLink && !k.reaches(r.Link, r.Via):
			return fmt.Errorf("the next hop is not on the link: %w", syscall.ENETUNREACH)
		case r.Source.IsValid() && !k.isLocal(r.Source):
			return fmt.Errorf("the source is no address of this host: %w", syscall.EINVAL)
		}
	}
	same := func(o dataplane.Route) bool {
		return o.Table == r.Table && o.Destination == r.Destination && o.Foreign == r.Foreign
	}
	if i := slices.IndexFunc(k.routes, same); i >= 0 {
		k.routes[i] = r
		return nil
	}
	k.routes = append(k.routes, r)
	return nil
}
