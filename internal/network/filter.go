package network

import (
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/ipam"
)

// gatewayTable returns the filters of a gateway. They translate and check every packet without connection state: packets from the overlay to the
// tunnel (out) and from the tunnel to the overlay (in). They drop every packet without a translation. So a peer reaches only pods of this cluster,
// addresses that IP objects expose, and nodes that called the peer.
//
// The routing tables contain only the views of the peer. So sources are translated before routing, and so are destinations of packets from the
// tunnel. Destinations of packets to the tunnel are translated after routing. The peer's own addresses may exist in this cluster too, even as the
// address of this pod.
func gatewayTable(f *Facts, p *Peer, near, far netip.Addr, mtu int) *dataplane.Table {
	toReal, toExternal := map[netip.Addr]netip.Addr{}, map[netip.Addr]netip.Addr{}
	for _, e := range f.Exposed {
		toReal[e.External], toExternal[e.Real] = e.Real, e.External
	}
	theOverlay, theTunnel := dataplane.LinkName{Name: dataplane.OverlayLink}, dataplane.LinkName{Name: dataplane.TunnelLink}
	pods := dataplane.Selector{Set: "pods"}
	dropped := dataplane.FilterRule{Counter: true, Verdict: dataplane.Drop}
	jump := func(m dataplane.Match, chain string) dataplane.FilterRule {
		return dataplane.FilterRule{Match: m, Verdict: dataplane.Jump, Chain: chain}
	}
	lookup := func(field dataplane.Field, name string, verdict dataplane.Verdict) dataplane.FilterRule {
		return dataplane.FilterRule{Match: dataplane.Match{ICMPError: quoted(field)}, Rewrite: dataplane.Rewrite{Field: field, Map: name}, Verdict: verdict}
	}

	// An ICMP error quotes a packet of the opposite direction: on the way out, a packet from the peer to this cluster; on the way in, a
	// packet from this cluster to the peer. An error that quotes any other packet is forged. It could disturb a connection of this cluster
	// to another destination.
	ours := func(selector dataplane.Match, field dataplane.Field, name string) []dataplane.FilterRule {
		return []dataplane.FilterRule{{Match: selector, Verdict: dataplane.Return}, lookup(field, name, dataplane.Return), dropped}
	}
	theirs := func(chain string, field dataplane.Field) []dataplane.FilterRule {
		return slices.Concat([]dataplane.FilterRule{jump(dataplane.Match{}, chain)}, moves(p.Remaps(), field, dataplane.Return), []dataplane.FilterRule{dropped})
	}
	destination := append([]dataplane.FilterRule{{Match: dataplane.Match{Source: only(near), Destination: only(far)}, Verdict: dataplane.Accept}}, // pings
		moves(p.Remaps(), dataplane.DestinationField, dataplane.Accept)...)
	in := []dataplane.FilterRule{
		{Match: dataplane.Match{Source: only(far), Destination: only(near)}, Verdict: dataplane.Accept}, // pings
		jump(dataplane.Match{ICMPError: true}, "in-quoted"), jump(dataplane.Match{}, "in-source"),
		{Match: dataplane.Match{Destination: pods}, Verdict: dataplane.Accept},
		lookup(dataplane.DestinationField, "real", dataplane.Accept),
	}
	forward := []dataplane.FilterRule{
		{Match: dataplane.Match{InLink: theOverlay, OutLink: theTunnel}, Verdict: dataplane.Accept},
		{Match: dataplane.Match{InLink: theTunnel, OutLink: theOverlay}, Verdict: dataplane.Accept},
		dropped,
	}
	if f.Options.ClampMSS {
		forward = slices.Insert(forward, 0, dataplane.FilterRule{Match: dataplane.Match{Transport: dataplane.TCP, SYN: true}, ClampMSS: uint16(mtu - 40)})
	}
	return &dataplane.Table{
		Name: dataplane.FilterTable,
		Sets: []dataplane.AddressSet{
			{Name: "inside", Intervals: true, Elements: cover(f.Pods, f.members(p.ClusterID))},
			{Name: "pods", Intervals: true, Elements: disjoint(f.Pods)},
		},
		Maps: []dataplane.AddressMap{{Name: "real", Elements: toReal}, {Name: "external", Elements: toExternal}},
		Chains: []dataplane.Chain{
			{Name: "check", Hook: dataplane.Prerouting, Priority: dataplane.Raw, Rules: []dataplane.FilterRule{
				jump(dataplane.Match{InLink: theOverlay}, "out"),
				jump(dataplane.Match{InLink: theTunnel}, "in"),
			}},
			{Name: "leave", Hook: dataplane.Postrouting, Priority: dataplane.Raw, Rules: []dataplane.FilterRule{
				jump(dataplane.Match{OutLink: theTunnel, Source: only(near), ICMPError: true}, "own"),
				jump(dataplane.Match{OutLink: theTunnel}, "out-destination"),
			}},
			{Name: "out", Rules: []dataplane.FilterRule{
				jump(dataplane.Match{ICMPError: true}, "out-quoted"),
				{Match: dataplane.Match{Source: pods}, Verdict: dataplane.Accept},
				lookup(dataplane.SourceField, "external", dataplane.Accept),
				// A router on the way to an exposed host may report an error, for example that a packet is too big. The router has no address
				// that peers know, but the sender must receive the error. So the source becomes the first address of the external CIDR, which
				// is never allocated.
				{Match: dataplane.Match{ICMPError: true, QuotedDestination: dataplane.Selector{Prefix: f.External.Masked()}},
					Rewrite: dataplane.Rewrite{Field: dataplane.SourceField, To: single(f.External.Masked().Addr())}, Verdict: dataplane.Accept},
				dropped,
			}},
			// This rule is for ICMP errors from this pod itself. Like the router above, the pod has no address that peers know.
			{Name: "own", Rules: []dataplane.FilterRule{
				jump(dataplane.Match{}, "out-quoted"),
				{Rewrite: dataplane.Rewrite{Field: dataplane.SourceField, To: single(f.External.Masked().Addr())}, Verdict: dataplane.Return},
			}},
			{Name: "out-destination", Rules: append(destination, dropped)},
			{Name: "out-quoted", Rules: theirs("out-quoted-destination", dataplane.QuotedSourceField)},
			{Name: "out-quoted-destination", Rules: ours(dataplane.Match{ICMPError: true, QuotedDestination: pods}, dataplane.QuotedDestinationField, "external")},
			{Name: "in", Rules: append(in, dropped)},
			{Name: "in-source", Rules: append(moves(p.Remaps(), dataplane.SourceField, dataplane.Return), dropped)},
			{Name: "in-quoted", Rules: theirs("in-quoted-source", dataplane.QuotedDestinationField)},
			{Name: "in-quoted-source", Rules: ours(dataplane.Match{ICMPError: true, QuotedSource: pods}, dataplane.QuotedSourceField, "real")},
			{Name: "through", Hook: dataplane.Forward, Priority: dataplane.Filter, Drop: true, Rules: forward},
			{Name: "host", Hook: dataplane.Input, Priority: dataplane.Filter, Rules: []dataplane.FilterRule{
				// Nodes drop such packets of their own pods; see nodeTable.
				{Match: dataplane.Match{Source: dataplane.Selector{Set: "inside", Not: true}, Transport: dataplane.UDP, DestinationPort: f.overlayPort()}, Counter: true, Verdict: dataplane.Drop},
				{Match: dataplane.Match{InLink: theTunnel, Transport: dataplane.UDP, DestinationPort: PingPort}, Verdict: dataplane.Accept},
				{Match: dataplane.Match{InLink: theTunnel, Transport: dataplane.UDP, DestinationPort: PongPort}, Verdict: dataplane.Accept},
				{Match: dataplane.Match{InLink: theTunnel, Transport: dataplane.ICMP}, Verdict: dataplane.Accept},
				{Match: dataplane.Match{InLink: theTunnel}, Counter: true, Verdict: dataplane.Drop},
				{Match: dataplane.Match{InLink: theOverlay, Transport: dataplane.ICMP}, Verdict: dataplane.Accept},
				{Match: dataplane.Match{InLink: theOverlay}, Counter: true, Verdict: dataplane.Drop},
			}},
		},
	}
}

// moves returns the rules that translate an address field of the peer: from view to real on the way out, from real to view on the way in.
// They translate each address once, even if the view of one range equals the real range of another.
func moves(remaps []ipam.Remap, field dataplane.Field, then dataplane.Verdict) []dataplane.FilterRule {
	outward := field == dataplane.DestinationField || field == dataplane.QuotedSourceField
	rules := make([]dataplane.FilterRule, 0, len(remaps))
	for _, r := range remaps {
		from, to := r.Real, r.View
		if outward {
			from, to = to, from
		}
		rule := dataplane.FilterRule{Match: dataplane.Match{ICMPError: quoted(field)}, Verdict: then}
		selector := dataplane.Selector{Prefix: from}
		switch field {
		case dataplane.SourceField:
			rule.Match.Source = selector
		case dataplane.DestinationField:
			rule.Match.Destination = selector
		case dataplane.QuotedSourceField:
			rule.Match.QuotedSource = selector
		case dataplane.QuotedDestinationField:
			rule.Match.QuotedDestination = selector
		}
		if !r.Identity() {
			rule.Rewrite = dataplane.Rewrite{Field: field, To: to}
		}
		rules = append(rules, rule)
	}
	return rules
}

func quoted(field dataplane.Field) bool {
	return field == dataplane.QuotedSourceField || field == dataplane.QuotedDestinationField
}

func only(a netip.Addr) dataplane.Selector { return dataplane.Selector{Prefix: single(a)} }
