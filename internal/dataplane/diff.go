package dataplane

import (
	"net/netip"
	"slices"
)

// Diff is the way from have to want, in an order that leaves no gap: first everything is made or changed (filters, links, addresses,
// neighbours, peers, routes, rules), then what is wanted no more goes (the same backwards), so that a filter is there before the first route
// and until the last one is gone. It is empty when nothing of ours differs. What is not ours by own is left alone whatever have
// says. What hangs on a Tunnel link that is not there is left out: see Missing. Uninstalling is a Diff to an empty State.
//
// Two things can't be done without a gap: a VXLAN link that differs in what can't change takes its routes and neighbours along, and so does
// the last address of a link.
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

// Missing are the names of the Tunnel links that are wanted and not there yet, or not yet WireGuard devices: what hangs on them waits.
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

// differ collects changes. A phase may move what later ones find in have, where a change takes other things along.
type differ struct {
	have, want State
	own        Ownership
	sets       []Change
	removals   [][]Change
	disturbed  map[string]bool // links whose routes and next hops may go when addresses go
}

func (d *differ) phase(f func() (sets, removals []Change)) {
	sets, removals := f()
	d.sets = append(d.sets, sets...)
	d.removals = append(d.removals, removals)
}

// of is the part of s that is ours.
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

// missing says whether a link is neither there nor made by these changes.
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

// remake says whether a link differs in what can't change.
func remake(have, want Link) bool {
	have.MTU, have.Down = want.MTU, false
	return have != want
}

// lose takes what hangs on a link out of have.
func (d *differ) lose(link string) {
	d.have.Addresses = keep(d.have.Addresses, func(a Address) bool { return a.Link != link })
	d.have.Neighbours = keep(d.have.Neighbours, func(n Neighbour) bool { return n.Link != link })
	d.have.Routes = keep(d.have.Routes, func(r Route) bool { return r.Link != link })
}

// addresses: an address that goes may take others of its network along, and the last one of a link takes the routes and next hops of the link,
// so on a link that stays it goes first, and they are set again.
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

// index splits neighbours into their halves.
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

// peers: an allowed prefix belongs to one peer, so setting it at one takes it from another. That one differs then too, and is set after it or
// before, to a list without it.
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

// routes: one route takes the place of another at once. Where there are several for a destination, somebody else was here: all go first.
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
