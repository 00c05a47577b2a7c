package network

import (
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/ipam"
)

// Host is what an agent knows by itself of the node that it runs on.
type Host struct {
	// Name of the Node.
	Name string
	// MTU of the link that carries the node's InternalIP, in bytes.
	MTU int
	// Addresses are all IPv4 addresses of the host's links: also those that the API does not tell of, like that of the CNI's bridge.
	Addresses []netip.Addr
	// Dependencies are the networks of its links, its next hops, the destinations of its routes and its resolvers.
	Dependencies []Dependency
}

// CompileNode is what a node needs in its kernel. active are the gateway pods to route to, by cluster ID; see Choose. While there is no
// peer, or the node is not known, that is nothing at all.
func CompileNode(f *Facts, host Host, active map[string]netip.Addr) dataplane.State {
	node, ok := f.Node(host.Name)
	if !ok || len(f.Peers) == 0 {
		return dataplane.State{}
	}
	state := dataplane.State{
		Links: []dataplane.Link{overlay(f, node.IP, host.MTU)},
	}
	routes, gateways, remotes := routes{}, []netip.Addr{}, []netip.Prefix{}
	for i := range f.Peers {
		p := &f.Peers[i]
		for _, c := range p.Candidates {
			gateways = append(gateways, c.IP)
		}
		gateway, has := active[p.ClusterID]
		views, _ := Admitted(p, host)
		remotes = append(remotes, views...)
		for _, view := range views {
			// Without a gateway the peer is unreachable, and says so: its packets must not go astray by the default route.
			route := dataplane.Route{Table: dataplane.OverlayTable, Destination: view.Masked(), Type: dataplane.Unreachable}
			if has {
				route = dataplane.Route{Table: dataplane.OverlayTable, Destination: view.Masked(), Via: gateway, Link: dataplane.OverlayLink, OnLink: true,
					Source: node.IP, MTU: p.routeMTU(host.MTU)}
			}
			routes.add(route)
		}
	}
	state.Neighbours, state.Routes = neighbours(node.IP, gateways), routes.all()
	state.Rules, state.Table = nodeRules(f, remotes), nodeTable(f, node, host, remotes)
	return state
}

// nodeTable keeps the overlay to its members and remote addresses to the overlay, keeps other translations off what crosses it, and lets
// peers answer this node but not call it.
func nodeTable(f *Facts, node Node, host Host, remotes []netip.Prefix) *dataplane.Table {
	overlay, elsewhere := dataplane.LinkName{Name: dataplane.OverlayLink}, dataplane.LinkName{Name: dataplane.OverlayLink, Not: true}
	members := f.members("")
	local := node.Pods
	if len(node.Running) > 0 {
		local = singles(node.Running)
	}
	// What IP objects expose may be called, also of this very node: its own addresses, and those of services where kube-proxy (IPVS) gives them
	// to every node.
	own, exposed := slices.Concat(node.Addresses, host.Addresses), []netip.Addr{}
	for _, e := range f.Exposed {
		if e.Kind == KindHost {
			exposed = append(exposed, e.Real)
		}
	}
	own = slices.DeleteFunc(own, func(a netip.Addr) bool { return ipam.Special(a) != "" || slices.Contains(exposed, a) })

	drop := func(m dataplane.Match) dataplane.FilterRule {
		return dataplane.FilterRule{Match: m, Counter: true, Verdict: dataplane.Drop}
	}
	toOverlay := func(from, to dataplane.Selector, in dataplane.LinkName) dataplane.Match {
		return dataplane.Match{InLink: in, Source: from, Destination: to, Transport: dataplane.UDP, DestinationPort: f.overlayPort()}
	}
	anywhere := dataplane.LinkName{}
	// A packet that was just wrapped must not be translated: the kernel has already made its checksum for one whose content is to be summed by
	// the hardware, and translating spoils that (seen as InCsumErrors). It would be: it has the mark by which kube-proxy asks for a masquerade
	// of the packet inside, since the identity below is decided first and nobody takes the mark off; and CNIs masquerade what hosts send to pods.
	nat := []dataplane.FilterRule{{Match: toOverlay(only(node.IP), dataplane.Selector{}, anywhere), Verdict: dataplane.KeepSource}}
	if !f.Options.FullMasquerade {
		// A pod's address stays: the identity keeps the CNI's own masquerade off. But a pod of another node that called a service by this one must
		// be answered through it.
		nat = append(nat,
			dataplane.FilterRule{Match: dataplane.Match{OutLink: overlay, Source: dataplane.Selector{Set: "local", Not: true}, DestinationTranslated: true}, Verdict: dataplane.ToSource, Address: node.IP},
			dataplane.FilterRule{Match: dataplane.Match{OutLink: overlay, Source: dataplane.Selector{Set: "pods"}}, Verdict: dataplane.KeepSource})
	}
	nat = append(nat,
		dataplane.FilterRule{Match: dataplane.Match{OutLink: overlay}, Verdict: dataplane.ToSource, Address: node.IP},
		// A peer called a service. Its pod may run on another node, and must answer through this one.
		dataplane.FilterRule{Match: dataplane.Match{InLink: overlay, DestinationTranslated: true}, Verdict: dataplane.Masquerade},
		dataplane.FilterRule{Match: dataplane.Match{InLink: overlay, Destination: dataplane.Selector{Set: "pods"}}, Verdict: dataplane.KeepSource},
		// A peer called a host outside the cluster, which does not know where we see the peer.
		dataplane.FilterRule{Match: dataplane.Match{InLink: overlay}, Verdict: dataplane.Masquerade},
	)
	return &dataplane.Table{
		Name: dataplane.FilterTable,
		Sets: []dataplane.AddressSet{
			{Name: "members", Elements: singles(members)},
			{Name: "local", Intervals: true, Elements: disjoint(local)},
			{Name: "remotes", Intervals: true, Elements: disjoint(remotes)},
			{Name: "pods", Intervals: true, Elements: disjoint(f.Pods)},
			{Name: "own", Elements: singles(own)},
			{Name: "exposed", Elements: singles(exposed)},
		},
		Chains: []dataplane.Chain{
			{Name: "check", Hook: dataplane.Prerouting, Priority: dataplane.Raw, Rules: []dataplane.FilterRule{
				// Only members send into the overlay of others. What comes to a gateway from another node may have any of its addresses in the pod
				// network, since CNIs masquerade what hosts send to pods; so each node answers for its own pods. The same port is free inside the overlay.
				{Match: toOverlay(dataplane.Selector{Set: "members"}, dataplane.Selector{}, elsewhere), Verdict: dataplane.Return},
				drop(toOverlay(dataplane.Selector{Set: "local"}, dataplane.Selector{Set: "members"}, elsewhere)),
				drop(dataplane.Match{InLink: elsewhere, Source: dataplane.Selector{Set: "remotes"}}),
				drop(dataplane.Match{InLink: overlay, Source: dataplane.Selector{Set: "remotes", Not: true}}),
			}},
			// Before services are translated, so that ports of nodes are no way around it.
			{Name: "guard", Hook: dataplane.Prerouting, Priority: dataplane.Mangle, Rules: []dataplane.FilterRule{
				drop(dataplane.Match{InLink: overlay, Destination: dataplane.Selector{Set: "own"}, Unasked: true}),
			}},
			// And for addresses of the host that came up since it was last looked at: the overlay listens at all of them, too.
			{Name: "host", Hook: dataplane.Input, Priority: dataplane.Filter, Rules: []dataplane.FilterRule{
				drop(toOverlay(dataplane.Selector{Set: "members", Not: true}, dataplane.Selector{}, anywhere)),
				{Match: dataplane.Match{InLink: overlay, DestinationTranslated: true}, Verdict: dataplane.Accept},
				drop(dataplane.Match{InLink: overlay, Destination: dataplane.Selector{Set: "exposed", Not: true}, Unasked: true}),
			}},
			{Name: "source", Hook: dataplane.Postrouting, NAT: true, Priority: dataplane.SourceNAT - 1, Rules: nat},
		},
	}
}
