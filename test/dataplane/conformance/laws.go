package conformance

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"liqo.io/liqo/internal/dataplane"
)

// Laws checks these properties in the given number of random worlds:
//   - One pass leads from any state to any other, and a second pass finds nothing to do.
//   - After a crash at any change, the next pass makes the rest of the plan, and no moment has a gap.
//   - One pass repairs whatever another program changed.
//   - An uninstall leaves nothing behind.
func Laws(t *testing.T, newHost NewHost, worlds int) {
	for seed := range uint64(worlds) {
		law(t, newHost(t), seed)
	}
}

func law(t *testing.T, h Host, seed uint64) {
	defer func() {
		if t.Failed() {
			t.Log("seed", seed)
		}
	}()
	defer h.Close()
	d := NewDice(seed, h.Own)
	tunnel := d.maybe()
	if tunnel {
		h.AddTunnel()
	}
	first, second := d.State(tunnel), d.State(tunnel)
	h.converge(t, first)
	h.crashing(t, first, second)
	h.same(t, second)
	d.disturb(h, second)
	h.converge(t, second)
	h.converge(t, dataplane.State{})
}

// crashing changes one state into another as if the agent crashed after every change: read, compare, make one change, start again.
func (h Host) crashing(t *testing.T, from, to dataplane.State) {
	t.Helper()
	changes := dataplane.Diff(h.read(t), to, h.Own)
	for len(changes) > 0 {
		h.apply(t, changes[0])
		now := h.read(t)
		rest := dataplane.Diff(now, to, h.Own)
		if len(rest) >= len(changes) {
			t.Fatalf("after a crash behind %q the plan is no shorter:\n%v\nthan\n%v", changes[0], rest, changes)
		}
		if gap := findGap(now, from, to, len(rest) > 0); gap != "" {
			t.Fatalf("%s after %q\nfrom\n%s\nto\n%s\nnow\n%s", gap, changes[0], dataplane.Text(from), dataplane.Text(to), dataplane.Text(now))
		}
		changes = rest
	}
}

// findGap returns what violates the order that Diff promises for every moment of a transition, or "".
func findGap(now, from, to dataplane.State, more bool) string {
	switch {
	case now.Table == nil && from.Table != nil && more:
		return "the filter is gone before the last change"
	case now.Table == nil && to.Table != nil:
		return "the filter was not the first change"
	}
	if !slices.Equal(made(from.Links), made(to.Links)) || !slices.Equal(dataplane.Canonical(from).Addresses, dataplane.Canonical(to).Addresses) {
		return "" // recreating a link deletes its routes, and so does deleting its last address
	}
	for _, r := range from.Routes {
		if slices.ContainsFunc(to.Routes, at(r)) && !slices.ContainsFunc(now.Routes, at(r)) {
			return fmt.Sprint("no route at all to ", r.Destination)
		}
	}
	for _, r := range from.Rules {
		if slices.Contains(to.Rules, r) && !slices.Contains(now.Rules, r) {
			return fmt.Sprintf("no rule %q", r)
		}
	}
	if from.Table == nil || to.Table == nil || now.Table == nil {
		return ""
	}
	return elementGap(*now.Table, *dataplane.Canonical(from).Table, *dataplane.Canonical(to).Table, len(now.Routes) > len(to.Routes))
}

// elementGap returns an element that is missing too early, or "". Elements of both states must always exist. Unwanted elements must exist
// until the routes have changed.
func elementGap(now, from, to dataplane.Table, early bool) string {
	sameRules := slices.EqualFunc(from.Chains, to.Chains, func(a, b dataplane.Chain) bool { return slices.Equal(a.Rules, b.Rules) })
	for i, s := range from.Sets {
		for _, p := range s.Elements {
			stays := slices.Contains(to.Sets[i].Elements, p)
			inTheWay := slices.ContainsFunc(to.Sets[i].Elements, p.Overlaps)
			if (stays || early && sameRules && !inTheWay) && !slices.Contains(now.Sets[i].Elements, p) {
				return fmt.Sprint("not in a set any more: ", p)
			}
		}
	}
	for k, v := range from.Maps[0].Elements {
		if to.Maps[0].Elements[k] == v && now.Maps[0].Elements[k] != v {
			return fmt.Sprint("not in a map any more: ", k)
		}
	}
	return ""
}

func at(r dataplane.Route) func(dataplane.Route) bool {
	return func(o dataplane.Route) bool { return o.Table == r.Table && o.Destination == r.Destination }
}

// disturb changes objects in ways that another program with the necessary rights could.
func (d Dice) disturb(h Host, s dataplane.State) {
	link := []string{d.own.Overlay, d.own.Tunnel}
	for range 1 + d.IntN(3) {
		var c dataplane.Change
		switch d.IntN(12) {
		case 0:
			h.SetDown(link[d.IntN(2)])
			continue
		case 1:
			h.RemoveLink(d.own.Overlay)
			continue
		case 2:
			c = dataplane.Change{Operation: dataplane.Delete, Table: &dataplane.Table{Name: d.own.Table}}
		case 3:
			c = dataplane.Change{Table: d.table()}
		case 4:
			c = dataplane.Change{Address: &dataplane.Address{Link: link[d.IntN(2)], Prefix: netip.MustParsePrefix("192.0.2.1/24")}}
		case 5:
			c = dataplane.Change{Route: &dataplane.Route{Table: dataplane.OverlayTable, Destination: d.prefix(), Type: dataplane.Unreachable}}
		case 6:
			c = dataplane.Change{Rule: &dataplane.Rule{Priority: 1, Table: dataplane.OverlayTable}}
		case 7:
			a := d.addr()
			c = dataplane.Change{Neighbour: &dataplane.Neighbour{Link: d.own.Overlay, IP: a, MAC: dataplane.MAC{2, 9}, Underlay: a}}
		case 8:
			c = dataplane.Change{Peer: &dataplane.DevicePeer{Link: d.own.Tunnel, Peer: dataplane.Peer{PublicKey: dataplane.PublicKey{9}, AllowedIPs: d.prefixes(4, false)}}}
		case 9:
			a := d.addr()
			c = dataplane.Change{Elements: &dataplane.Elements{Table: d.own.Table, Add: []dataplane.Content{
				{Name: "members", Prefixes: d.prefixes(3, true)}, {Name: "real2ext", Pairs: map[netip.Addr]netip.Addr{a: a}}}}}
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
				n.IP = HostAddress
			}
			c = dataplane.Change{Operation: dataplane.Delete, Neighbour: &n}
		}
		_ = h.Apply(context.Background(), []dataplane.Change{c}) // a change that fails disturbs nothing
	}
}
