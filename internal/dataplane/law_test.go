package dataplane_test

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/dataplane/fake"
)

// worlds is how many random ones the laws are held against.
const worlds = 20000

var own = dataplane.Ours()

func read(t *testing.T, k *fake.Kernel) dataplane.State {
	t.Helper()
	s, err := k.Read(context.Background(), own)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func apply(t *testing.T, seed uint64, k *fake.Kernel, changes []dataplane.Change) {
	t.Helper()
	if err := k.Apply(context.Background(), changes); err != nil {
		t.Fatalf("seed %d: %v\nof %v", seed, err, changes)
	}
}

// same fails where the kernel is not as wanted. What a state leaves open is not compared.
func same(t *testing.T, seed uint64, k *fake.Kernel, want dataplane.State) {
	t.Helper()
	have := read(t, k)
	if changes := dataplane.Diff(have, want, own); len(changes) > 0 {
		t.Fatalf("seed %d: not silent where nothing differs: %v\nhave\n%s\nwant\n%s", seed, changes, dataplane.Text(have), dataplane.Text(want))
	}
	if got, expected := dataplane.Text(comparable(have, want)), dataplane.Text(comparable(want, want)); got != expected {
		t.Fatalf("seed %d: the kernel differs from what is wanted:\n%s", seed, cmp.Diff(expected, got))
	}
}

// comparable leaves out of s what want leaves open.
func comparable(s, want dataplane.State) dataplane.State {
	s.Links = wanted(s.Links)
	if len(want.WireGuard) == 0 {
		s.WireGuard = nil // the device stays, and its keys
	}
	s.WireGuard = slices.Clone(s.WireGuard)
	for i := range s.WireGuard {
		if want.WireGuard[0].ListenPort == 0 {
			s.WireGuard[i].ListenPort = 0
		}
		s.WireGuard[i].Peers = slices.Clone(s.WireGuard[i].Peers)
		for j, p := range s.WireGuard[i].Peers {
			open := func(w dataplane.Peer) bool { return w.PublicKey == p.PublicKey && !w.Endpoint.IsValid() }
			if slices.ContainsFunc(want.WireGuard[0].Peers, open) {
				s.WireGuard[i].Peers[j].Endpoint = netip.AddrPort{}
			}
		}
	}
	return s
}

// wanted leaves out tunnels: they are there or not.
func wanted(links []dataplane.Link) []dataplane.Link {
	return slices.DeleteFunc(slices.Clone(links), func(l dataplane.Link) bool { return l.Kind == dataplane.Tunnel })
}

// TestDiffInRandomWorlds: one pass makes any state of any other; there is nothing to do then; after a crash at any change the rest of the
// plan follows; whatever somebody else does to ours is undone in one pass; nothing is left after an uninstall.
func TestDiffInRandomWorlds(t *testing.T) {
	for seed := range uint64(worlds) {
		d := newDice(seed)
		k := fake.New(hostAddress)
		tunnel := d.maybe()
		if tunnel {
			k.AddTunnel(dataplane.TunnelLink, 1420)
		}
		first, second := d.state(tunnel), d.state(tunnel)
		for _, s := range []dataplane.State{first, second} {
			if err := dataplane.Validate(s, own); err != nil {
				t.Fatalf("seed %d: the dice threw an invalid state: %v", seed, err)
			}
		}
		apply(t, seed, k, dataplane.Diff(read(t, k), first, own))
		same(t, seed, k, first)

		crashing(t, seed, k, first, second)
		same(t, seed, k, second)

		d.disturb(k, second)
		apply(t, seed, k, dataplane.Diff(read(t, k), second, own))
		same(t, seed, k, second)

		apply(t, seed, k, dataplane.Diff(read(t, k), dataplane.State{}, own))
		same(t, seed, k, dataplane.State{})
	}
}

// crashing goes from one state to another with a crash after every change: read, compare, make one change, begin again. At no moment
// is there a gap.
func crashing(t *testing.T, seed uint64, k *fake.Kernel, from, to dataplane.State) {
	t.Helper()
	changes := dataplane.Diff(read(t, k), to, own)
	for len(changes) > 0 {
		apply(t, seed, k, changes[:1])
		have := read(t, k)
		noGap(t, seed, have, from, to, changes)
		rest := dataplane.Diff(have, to, own)
		if len(rest) >= len(changes) {
			t.Fatalf("seed %d: after a crash behind %q the plan is no shorter:\n%v\nthan\n%v", seed, changes[0], rest, changes)
		}
		changes = rest
	}
}

// noGap holds what the order of changes promises, for any moment on the way.
func noGap(t *testing.T, seed uint64, now, from, to dataplane.State, changes []dataplane.Change) {
	t.Helper()
	fail := func(what string) {
		t.Helper()
		t.Fatalf("seed %d: %s after %q\nfrom\n%s\nto\n%s\nnow\n%s", seed, what, changes[0], dataplane.Text(from), dataplane.Text(to), dataplane.Text(now))
	}
	if now.Table == nil && from.Table != nil && len(dataplane.Diff(now, to, own)) > 0 {
		fail("the filter is gone before the last change")
	}
	if now.Table == nil && to.Table != nil {
		fail("the filter was not the first change")
	}
	if !slices.Equal(wanted(from.Links), wanted(to.Links)) || !sameAddresses(from, to) {
		return // a link that is made anew takes its routes along
	}
	for _, r := range from.Routes {
		if slices.ContainsFunc(to.Routes, at(r)) && !slices.ContainsFunc(now.Routes, at(r)) {
			fail("no route at all to " + r.Destination.String())
		}
	}
	for _, r := range from.Rules {
		if slices.Contains(to.Rules, r) && !slices.Contains(now.Rules, r) {
			fail("no rule " + r.String())
		}
	}
	if from.Table == nil || to.Table == nil || now.Table == nil {
		return
	}
	a, b, c := dataplane.Canonical(from).Table, dataplane.Canonical(to).Table, now.Table
	for i, s := range a.Sets {
		for _, p := range s.Elements {
			if slices.Contains(b.Sets[i].Elements, p) && !slices.Contains(c.Sets[i].Elements, p) {
				fail("not in set: " + p.String())
			}
		}
	}
	for key, value := range a.Maps[0].Elements {
		if b.Maps[0].Elements[key] == value && c.Maps[0].Elements[key] != value {
			fail("not in map: " + key.String())
		}
	}
}

func at(r dataplane.Route) func(dataplane.Route) bool {
	return func(o dataplane.Route) bool { return o.Table == r.Table && o.Destination == r.Destination }
}

func sameAddresses(a, b dataplane.State) bool {
	return slices.Equal(dataplane.Canonical(a).Addresses, dataplane.Canonical(b).Addresses)
}

// disturb does what anybody with the right could do to ours.
func (d dice) disturb(k *fake.Kernel, s dataplane.State) {
	for range 1 + d.IntN(3) {
		var c dataplane.Change
		switch d.IntN(12) {
		case 0:
			k.SetDown([]string{dataplane.OverlayLink, dataplane.TunnelLink}[d.IntN(2)])
			continue
		case 1:
			k.RemoveLink(dataplane.OverlayLink)
			continue
		case 2:
			c = dataplane.Change{Operation: dataplane.Delete, Table: &dataplane.Table{Name: dataplane.FilterTable}}
		case 3:
			other := d.table()
			other.Foreign = "flags dormant"
			c = dataplane.Change{Table: other}
		case 4:
			c = dataplane.Change{Address: &dataplane.Address{Link: []string{dataplane.OverlayLink, dataplane.TunnelLink}[d.IntN(2)], Prefix: netipPrefix("192.0.2.1/24")}}
		case 5:
			c = dataplane.Change{Route: &dataplane.Route{Table: dataplane.OverlayTable, Destination: d.prefix(), Type: dataplane.Unreachable, Foreign: []string{"", "metric 5"}[d.IntN(2)]}}
		case 6:
			c = dataplane.Change{Rule: &dataplane.Rule{Priority: 1, Table: dataplane.OverlayTable, Foreign: "fwmark 1"}}
		case 7:
			a := d.addr()
			c = dataplane.Change{Neighbour: &dataplane.Neighbour{Link: dataplane.OverlayLink, IP: a, MAC: dataplane.MAC{2, 9}, Underlay: a}}
		case 8:
			c = dataplane.Change{Peer: &dataplane.DevicePeer{Link: dataplane.TunnelLink, Peer: dataplane.Peer{PublicKey: dataplane.PublicKey{9}, AllowedIPs: d.prefixes(4, false)}}}
		case 9:
			if s.Table == nil {
				continue
			}
			a := d.addr()
			c = dataplane.Change{Elements: &dataplane.Elements{Table: dataplane.FilterTable, Add: []dataplane.Content{{Name: "members", Prefixes: d.prefixes(3, true)}, {Name: "real2ext", Pairs: pair(a, a)}}}}
		case 10:
			if len(s.Routes) == 0 {
				continue
			}
			c = dataplane.Change{Operation: dataplane.Delete, Route: &s.Routes[d.IntN(len(s.Routes))]}
		case 11:
			if len(s.Neighbours) == 0 {
				continue
			}
			n := s.Neighbours[d.IntN(len(s.Neighbours))]
			if d.maybe() {
				n.IP = hostAddress
			}
			c = dataplane.Change{Operation: dataplane.Delete, Neighbour: &n}
		}
		_ = k.Apply(context.Background(), []dataplane.Change{c}) // what the kernel refuses does not disturb
	}
}
