package conformance

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"liqo.io/liqo/internal/dataplane"
)

// Suite runs the tests that every kernel must pass.
func Suite(t *testing.T, newHost NewHost) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, h Host)
	}{
		{"impossible routes are refused", refusedRoutes},
		{"a link is deleted with its objects", linkGoes},
		{"the last address is deleted with routes and next hops", addressGoes},
		{"a tunnel link is waited for, never created or deleted", tunnelWaits},
		{"a deleted object can be deleted again", deletedTwice},
		{"a rule is not mistaken for one with a condition", similarRules},
		{"foreign objects stay", foreignStays},
		{"a table is replaced at once or not at all", tableAtOnce},
		{"elements change at once or not at all", elementsAtOnce},
		{"intervals have edges", intervals},
		{"thousands of elements", manyElements},
		{"every rule is read as it was written", everyRule},
		{"an allowed prefix belongs to one peer", allowedPrefixes},
		{"a key rotates", rotation},
		{"changes are reported", watched},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			t.Cleanup(h.Close)
			c.test(t, h)
		})
	}
}

func (h Host) vxlan() dataplane.Link {
	return dataplane.Link{Name: h.Own.Overlay, Kind: dataplane.VXLAN, MTU: 1450, VNI: 18952, Port: 6091, Local: HostAddress, MAC: mac(HostAddress)}
}

func (h Host) via(destination, hop string) dataplane.Route {
	return dataplane.Route{Table: dataplane.OverlayTable, Destination: netip.MustParsePrefix(destination), Via: netip.MustParseAddr(hop), Link: h.Own.Overlay, OnLink: true}
}

func (h Host) member() dataplane.Neighbour {
	a := netip.MustParseAddr("10.0.0.9")
	return dataplane.Neighbour{Link: h.Own.Overlay, IP: a, MAC: mac(a), Underlay: a}
}

func (h Host) overlay() dataplane.State {
	return dataplane.State{
		Links:      []dataplane.Link{h.vxlan()},
		Neighbours: []dataplane.Neighbour{h.member()},
		Routes:     []dataplane.Route{h.via("10.71.0.0/16", "10.0.0.9")},
		Rules:      []dataplane.Rule{{Priority: 900, Table: dataplane.OverlayTable}},
	}
}

func refusedRoutes(t *testing.T, h Host) {
	route := h.via("10.71.0.0/16", "10.0.0.9")
	h.refuse(t, dataplane.Change{Route: &route}) // the link is missing
	h.refuse(t, dataplane.Change{Neighbour: &[]dataplane.Neighbour{h.member()}[0]})
	h.refuse(t, dataplane.Change{Address: &dataplane.Address{Link: h.Own.Overlay, Prefix: netip.MustParsePrefix("10.0.0.1/32")}})
	link := h.vxlan()
	h.apply(t, dataplane.Change{Link: &link}, dataplane.Change{Route: &route})
	h.SetDown(link.Name)
	h.refuse(t, dataplane.Change{Route: &route})
	h.apply(t, dataplane.Change{Link: &link})
	elsewhere, lost := route, route
	elsewhere.Source = netip.MustParseAddr("192.0.2.7")
	h.refuse(t, dataplane.Change{Route: &elsewhere}) // not an address of this host
	lost.OnLink = false
	h.refuse(t, dataplane.Change{Route: &lost}) // no route leads to the next hop
	other := link
	other.Port++
	h.refuse(t, dataplane.Change{Link: &other}) // a link of this name exists
}

func linkGoes(t *testing.T, h Host) {
	want := h.overlay()
	h.converge(t, want)
	h.RemoveLink(h.Own.Overlay)
	if s := h.read(t); len(s.Links)+len(s.Neighbours)+len(s.Routes) > 0 || len(s.Rules) != 1 {
		t.Errorf("after the link there is still\n%s", dataplane.Text(s))
	}
	h.converge(t, want)
	h.SetDown(h.Own.Overlay)
	if s := h.read(t); len(s.Routes) > 0 || slices.Contains(s.Neighbours, h.member()) || !s.Links[0].Down {
		t.Errorf("with the link down there is still\n%s", dataplane.Text(s))
	}
	h.converge(t, want)
	other := want
	other.Links = []dataplane.Link{h.vxlan()}
	other.Links[0].Port++
	h.converge(t, other)
}

func addressGoes(t *testing.T, h Host) {
	want := h.overlay()
	h.converge(t, want)
	address := dataplane.Address{Link: h.Own.Overlay, Prefix: netip.MustParsePrefix("192.0.2.1/24")}
	h.apply(t, dataplane.Change{Address: &address})
	h.converge(t, want)
	h.apply(t, dataplane.Change{Address: &address}, dataplane.Change{Operation: dataplane.Delete, Address: &address})
	if s := h.read(t); len(s.Routes) > 0 || slices.Contains(s.Neighbours, h.member()) {
		t.Errorf("after the last address there is still\n%s", dataplane.Text(s))
	}
	h.converge(t, want)
}

// tunnel returns the state of one side of a tunnel.
func (h Host) tunnel() dataplane.State {
	return dataplane.State{
		Links:     []dataplane.Link{{Name: h.Own.Tunnel, Kind: dataplane.Tunnel, MTU: 1340}},
		Addresses: []dataplane.Address{{Link: h.Own.Tunnel, Prefix: netip.MustParsePrefix("169.254.18.1/30")}},
		WireGuard: []dataplane.WireGuard{{Link: h.Own.Tunnel, PrivateKey: dataplane.PrivateKey{7, 7}, ListenPort: 51820}},
		Routes: []dataplane.Route{
			{Table: dataplane.OverlayTable, Destination: netip.MustParsePrefix("10.200.0.0/16"), Via: netip.MustParseAddr("169.254.18.2"), Link: h.Own.Tunnel},
			{Table: dataplane.OverlayTable, Destination: netip.MustParsePrefix("0.0.0.0/0"), Type: dataplane.Unreachable},
		},
		Rules: []dataplane.Rule{{Priority: 900, InLink: h.Own.Overlay, Table: dataplane.OverlayTable}},
	}
}

func tunnelWaits(t *testing.T, h Host) {
	want := h.tunnel()
	h.refuse(t, dataplane.Change{Link: &want.Links[0]})
	h.refuse(t, dataplane.Change{Device: &dataplane.Device{Link: h.Own.Tunnel}})
	h.refuse(t, dataplane.Change{Peer: &dataplane.DevicePeer{Link: h.Own.Tunnel}})
	h.apply(t, dataplane.Diff(h.read(t), want, h.Own)...)
	if s := h.read(t); len(s.Routes) != 1 || len(s.Rules) != 1 || len(s.Links) != 0 {
		t.Errorf("without the tunnel there is\n%s", dataplane.Text(s))
	}
	if missing := dataplane.Missing(h.read(t), want); !slices.Equal(missing, []string{h.Own.Tunnel}) {
		t.Errorf("missing %q", missing)
	}
	h.AddTunnel()
	h.converge(t, want)
	if missing := dataplane.Missing(h.read(t), want); len(missing) > 0 {
		t.Errorf("missing %q", missing)
	}
	h.refuse(t, dataplane.Change{Operation: dataplane.Delete, Link: &want.Links[0]})
	moved := want
	moved.Addresses = []dataplane.Address{{Link: h.Own.Tunnel, Prefix: netip.MustParsePrefix("169.254.18.2/30")}}
	moved.Routes = slices.Clone(want.Routes)
	moved.Routes[0].Via = netip.MustParseAddr("169.254.18.1")
	h.converge(t, moved)
	h.converge(t, dataplane.State{})
	if s := h.read(t); len(s.Links) != 1 || len(s.WireGuard) != 1 {
		t.Errorf("an uninstall took the tunnel:\n%s", dataplane.Text(s))
	}
}

func deletedTwice(t *testing.T, h Host) {
	s, p := h.overlay(), dataplane.DevicePeer{Link: h.Own.Tunnel, Peer: dataplane.Peer{PublicKey: dataplane.PublicKey{1}}}
	address := dataplane.Address{Link: h.Own.Overlay, Prefix: netip.MustParsePrefix("192.0.2.1/24")}
	changes := []dataplane.Change{{Rule: &s.Rules[0]}, {Route: &s.Routes[0]}, {Neighbour: &s.Neighbours[0]}, {Address: &address}, {Table: &dataplane.Table{Name: h.Own.Table}}, {Peer: &p}, {Link: &s.Links[0]}}
	for i := range changes {
		changes[i].Operation = dataplane.Delete
	}
	h.apply(t, changes...)
	h.AddTunnel()
	h.converge(t, s)
	h.apply(t, changes...)
	h.apply(t, changes...)
	h.same(t, dataplane.State{})
}

func similarRules(t *testing.T, h Host) {
	plain := dataplane.Rule{Priority: 900, Table: dataplane.OverlayTable}
	link, source, destination := plain, plain, plain
	link.InLink, source.Source, destination.Destination = h.Own.Overlay, netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.0.0.0/8")
	for _, conditional := range []dataplane.Rule{link, source, destination} {
		for _, order := range [][]dataplane.Rule{{plain, conditional}, {conditional, plain}} {
			for _, keep := range order {
				h.converge(t, dataplane.State{})
				h.apply(t, dataplane.Change{Rule: &order[0]}, dataplane.Change{Rule: &order[1]}, dataplane.Change{Rule: &order[1]})
				h.converge(t, dataplane.State{Rules: []dataplane.Rule{keep}})
			}
		}
	}
}

func foreignStays(t *testing.T, h Host) {
	theirs := dataplane.Ownership{Overlay: "theirs", Tables: []int{1000}, Table: "theirs"}
	vxlan := h.vxlan()
	vxlan.Name, vxlan.VNI = "theirs", 1
	s := dataplane.State{
		Links:      []dataplane.Link{vxlan},
		Neighbours: []dataplane.Neighbour{{Link: "theirs", IP: HostAddress.Next(), MAC: mac(HostAddress), Underlay: HostAddress.Next()}},
		Routes:     []dataplane.Route{{Table: 1000, Destination: netip.MustParsePrefix("10.71.0.0/16"), Via: HostAddress.Next(), Link: "theirs", OnLink: true}},
		Rules:      []dataplane.Rule{{Priority: 900, Table: 1000}},
		Table:      &dataplane.Table{Name: "theirs", Chains: []dataplane.Chain{{Name: "raw", Hook: dataplane.Prerouting, Rules: []dataplane.FilterRule{{Counter: true}}}}},
	}
	if err := Validate(s, h.Own); err == nil {
		t.Error("an object that Liqo does not own can be wanted")
	}
	h.apply(t, dataplane.Diff(dataplane.State{}, s, theirs)...)
	ours := h.overlay()
	h.converge(t, ours)
	h.converge(t, dataplane.State{})
	have, err := h.Read(context.Background(), theirs)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := dataplane.Text(have), dataplane.Text(s); got != want {
		t.Errorf("what is not ours became\n%s\nand was\n%s", got, want)
	}
	if changes := dataplane.Diff(have, dataplane.State{}, h.Own); len(changes) > 0 {
		t.Errorf("a difference touches an object that Liqo does not own: %v", changes)
	}
}
