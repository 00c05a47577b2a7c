package dataplane

import (
	"net/netip"
	"slices"
)

// Diff returns the changes that lead from have to want. Their order leaves no gap: at no moment does a route exist without the filter, or is an
// object missing that both states have. First Diff creates or changes objects: filters, links, addresses, neighbours, peers, routes, rules. Then it
// deletes unwanted objects in the reverse order. So the filter exists before the first route is set and until the last one is deleted.
//
// Diff compares only the objects that own lists. It returns no changes if these are equal. It leaves out the objects that need a missing Tunnel link:
// see Missing. To uninstall, use an empty want.
//
// Two changes cannot avoid a gap. Recreating a VXLAN link deletes its routes and neighbours; it is necessary if a setting differs that cannot be
// changed in place. Deleting the last address of a link deletes its routes and neighbours too.
func Diff(have, want State, own Ownership) []Change {
	d := differ{have: Canonical(own.of(have)), want: Canonical(want), own: own}
	d.phase(d.filters)
	d.phase(d.links)
	d.phase(d.addresses)
	d.phase(d.neighbours)
	d.phase(d.peers)
	d.phase(d.routes)
	d.phase(d.rules)
	slices.Reverse(d.removals)
	return slices.Concat(d.sets, slices.Concat(d.removals...))
}

// Missing returns the names of the wanted Tunnel links that do not exist yet or are not WireGuard devices yet. Diff leaves out the objects
// that need these links.
func Missing(have, want State) []string {
	var out []string
	for _, l := range want.Links {
		if l.Kind != Tunnel {
			continue
		}
		wanted := slices.ContainsFunc(want.WireGuard, func(w WireGuard) bool { return w.Link == l.Name })
		device := slices.ContainsFunc(have.WireGuard, func(w WireGuard) bool { return w.Link == l.Name })
		if !hasLink(have.Links, l.Name) || wanted && !device {
			out = append(out, l.Name)
		}
	}
	slices.Sort(out)
	return out
}

// differ collects changes. If a change implicitly deletes other objects, its phase removes these from have, so that later phases set them
// again.
type differ struct {
	have, want State
	own        Ownership
	sets       []Change
	removals   [][]Change
	disturbed  map[string]bool // links that lose an address, and so possibly their routes and next hops
}

func (d *differ) phase(f func() (sets, removals []Change)) {
	sets, removals := f()
	d.sets = append(d.sets, sets...)
	d.removals = append(d.removals, removals)
}

// of returns the part of s that belongs to Liqo according to own.
func (own Ownership) of(s State) State {
	ours := func(link string) bool { return link != "" && (link == own.Overlay || link == own.Tunnel) }
	s.Links = keep(s.Links, func(l Link) bool { return ours(l.Name) })
	s.Addresses = keep(s.Addresses, func(a Address) bool { return ours(a.Link) })
	s.Neighbours = keep(s.Neighbours, func(n Neighbour) bool { return n.Link == own.Overlay })
	s.WireGuard = keep(s.WireGuard, func(w WireGuard) bool { return w.Link == own.Tunnel })
	s.Routes = keep(s.Routes, func(r Route) bool { return slices.Contains(own.Tables, r.Table) })
	s.Rules = keep(s.Rules, func(r Rule) bool { return slices.Contains(own.Tables, r.Table) })
	if s.Table != nil && s.Table.Name != own.Table {
		s.Table = nil
	}
	return s
}

func keep[T any](list []T, ours func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(t T) bool { return !ours(t) })
}

func hasLink(links []Link, name string) bool {
	return slices.ContainsFunc(links, func(l Link) bool { return l.Name == name })
}

// missing reports whether a link neither exists nor is created by these changes.
func (d *differ) missing(link string) bool {
	return !hasLink(d.have.Links, link) && !slices.ContainsFunc(d.want.Links, func(l Link) bool { return l.Name == link && l.Kind == VXLAN })
}

func (d *differ) links() (sets, removals []Change) {
	for _, want := range d.want.Links {
		i := slices.IndexFunc(d.have.Links, func(l Link) bool { return l.Name == want.Name })
		switch {
		case i < 0 && want.Kind == Tunnel:
		case i < 0:
			sets = append(sets, Change{Link: &want})
		case want.Kind == VXLAN && remake(d.have.Links[i], want):
			sets = append(sets, Change{Operation: Delete, Link: &d.have.Links[i]}, Change{Link: &want})
			d.lose(want.Name)
		case d.have.Links[i].MTU != want.MTU || d.have.Links[i].Down:
			sets = append(sets, Change{Link: &want})
		}
	}
	for _, have := range d.have.Links {
		if have.Name == d.own.Overlay && !hasLink(d.want.Links, have.Name) {
			removals = append(removals, Change{Operation: Delete, Link: &have})
		}
	}
	return sets, removals
}

// remake reports whether the links differ in a setting that cannot be changed in place.
func remake(have, want Link) bool {
	have.MTU, have.Down = want.MTU, false
	return have != want
}

// lose removes the addresses, neighbours and routes of a link from have, because the kernel deletes them together with the link.
func (d *differ) lose(link string) {
	d.have.Addresses = keep(d.have.Addresses, func(a Address) bool { return a.Link != link })
	d.have.Neighbours = keep(d.have.Neighbours, func(n Neighbour) bool { return n.Link != link })
	d.have.Routes = keep(d.have.Routes, func(r Route) bool { return r.Link != link })
}

// addresses compares addresses. When an address is deleted, the kernel may delete others of the same network. Deleting the last address of
// a link also deletes the routes and next hops of the link. So, on a link that stays, unwanted addresses are deleted first, and the rest is
// set again.
func (d *differ) addresses() (sets, removals []Change) {
	d.disturbed = map[string]bool{}
	for _, have := range d.have.Addresses {
		gone := Change{Operation: Delete, Address: &have}
		switch {
		case slices.Contains(d.want.Addresses, have):
		case hasLink(d.want.Links, have.Link):
			sets = append(sets, gone)
			d.disturbed[have.Link] = true
		default:
			removals = append(removals, gone)
		}
	}
	for _, want := range d.want.Addresses {
		if !d.missing(want.Link) && (d.disturbed[want.Link] || !slices.Contains(d.have.Addresses, want)) {
			sets = append(sets, Change{Address: &want})
		}
	}
	return sets, removals
}

type hop struct {
	link string
	ip   netip.Addr
}

type forwarding struct {
	link     string
	mac      MAC
	underlay netip.Addr
}

func (d *differ) neighbours() (sets, removals []Change) {
	haveHops, haveForwarding := index(d.have.Neighbours)
	wantHops, wantForwarding := index(d.want.Neighbours)
	wantMACs := map[forwarding]bool{}
	for f := range wantForwarding {
		wantMACs[forwarding{link: f.link, mac: f.mac}] = true
	}
	for _, n := range d.want.Neighbours {
		if !d.missing(n.Link) && (d.disturbed[n.Link] || haveHops[hop{n.Link, n.IP}] != n.MAC || !haveForwarding[forwarding{n.Link, n.MAC, n.Underlay}]) {
			sets = append(sets, Change{Neighbour: &n})
		}
	}
	for _, n := range d.have.Neighbours {
		if _, wanted := wantHops[hop{n.Link, n.IP}]; wanted {
			n.IP = netip.Addr{}
		}
		if wantMACs[forwarding{link: n.Link, mac: n.MAC}] {
			n.Underlay = netip.Addr{}
		}
		if n.IP.IsValid() || n.Underlay.IsValid() {
			removals = append(removals, Change{Operation: Delete, Neighbour: &n})
		}
	}
	return sets, removals
}

// index splits neighbours into neighbour entries and forwarding entries.
func index(list []Neighbour) (map[hop]MAC, map[forwarding]bool) {
	hops, forwardings := make(map[hop]MAC, len(list)), make(map[forwarding]bool, len(list))
	for _, n := range list {
		if n.IP.IsValid() {
			hops[hop{n.Link, n.IP}] = n.MAC
		}
		if n.Underlay.IsValid() {
			forwardings[forwarding{n.Link, n.MAC, n.Underlay}] = true
		}
	}
	return hops, forwardings
}

// peers compares WireGuard devices. An allowed prefix belongs to one peer only, so setting it on one peer removes it from another. The
// other peer differs from its wanted list too, so it is set as well, before or after; the order does not matter.
func (d *differ) peers() (sets, removals []Change) {
	for _, have := range d.have.WireGuard {
		var want WireGuard
		if i := slices.IndexFunc(d.want.WireGuard, func(w WireGuard) bool { return w.Link == have.Link }); i >= 0 {
			want = d.want.WireGuard[i]
			if want.PrivateKey != have.PrivateKey || want.ListenPort != 0 && want.ListenPort != have.ListenPort {
				sets = append(sets, Change{Device: &Device{Link: want.Link, PrivateKey: want.PrivateKey, ListenPort: want.ListenPort}})
			}
		}
		for _, p := range want.Peers {
			i := slices.IndexFunc(have.Peers, func(h Peer) bool { return h.PublicKey == p.PublicKey })
			if i < 0 || !samePeer(have.Peers[i], p) {
				sets = append(sets, Change{Peer: &DevicePeer{Link: have.Link, Peer: p}})
			}
		}
		for _, p := range have.Peers {
			if !slices.ContainsFunc(want.Peers, func(w Peer) bool { return w.PublicKey == p.PublicKey }) {
				removals = append(removals, Change{Operation: Delete, Peer: &DevicePeer{Link: have.Link, Peer: p}})
			}
		}
	}
	return sets, removals
}

func samePeer(have, want Peer) bool {
	return slices.Equal(have.AllowedIPs, want.AllowedIPs) && have.Keepalive == want.Keepalive &&
		(!want.Endpoint.IsValid() || want.Endpoint == have.Endpoint)
}

type target struct {
	table       int
	destination netip.Prefix
}

// routes compares routes. The kernel replaces a route in one step. If a destination has several routes, or one with foreign attributes,
// another program wrote them, and all of them are deleted first.
func (d *differ) routes() (sets, removals []Change) {
	have := make(map[target][]Route, len(d.have.Routes))
	for _, r := range d.have.Routes {
		k := target{r.Table, r.Destination}
		have[k] = append(have[k], r)
	}
	wanted := make(map[target]bool, len(d.want.Routes))
	for _, want := range d.want.Routes {
		k := target{want.Table, want.Destination}
		wanted[k] = true
		there := have[k]
		right := len(there) == 1 && there[0] == want && !d.disturbed[want.Link]
		if right || want.Link != "" && d.missing(want.Link) {
			continue
		}
		if len(there) > 1 || len(there) == 1 && there[0].Foreign != "" {
			for _, r := range there {
				sets = append(sets, Change{Operation: Delete, Route: &r})
			}
		}
		sets = append(sets, Change{Route: &want})
	}
	for _, r := range d.have.Routes {
		if !wanted[target{r.Table, r.Destination}] {
			removals = append(removals, Change{Operation: Delete, Route: &r})
		}
	}
	return sets, removals
}

func (d *differ) rules() (sets, removals []Change) {
	for _, want := range d.want.Rules {
		if !slices.Contains(d.have.Rules, want) {
			sets = append(sets, Change{Rule: &want})
		}
	}
	for _, have := range d.have.Rules {
		if !slices.Contains(d.want.Rules, have) {
			removals = append(removals, Change{Operation: Delete, Rule: &have})
		}
	}
	return sets, removals
}
