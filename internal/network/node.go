package network

import (
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/ipam"
)

// Host describes the node on which an agent runs, as the agent itself knows it.
type Host struct {
	// Name is the name of the Node.
	Name string
	// MTU is the MTU of the link with the node's InternalIP, in bytes.
	MTU int
	// Addresses are all IPv4 addresses of the host's links, including those that the API does not report, such as the address of the CNI's
	// bridge.
	Addresses []netip.Addr
	// Dependencies are the networks of the host's links, its next hops, the destinations of its routes and its name servers.
	Dependencies []Dependency
}

// CompileNode returns the state that a node needs in its kernel. active are the addresses of the gateway pods to route to, by cluster ID;
// see Choose. If there is no peer or the node is unknown, the state is empty.
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
			// Without a gateway, the peer is unreachable, and the route rejects packets to it. They must not leave through the default route.
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

// nodeTable returns the filters of a node. Only members may send into the overlay, and packets from remote addresses may arrive only
// through the overlay. Other programs must not translate packets that cross the overlay. Peers may answer connections of this node and of
// Liqo's own pods, but not open connections to them.
func nodeTable(f *Facts, node Node, host Host, remotes []netip.Prefix) *dataplane.Table {
	overlay, elsewhere := dataplane.LinkName{Name: dataplane.OverlayLink}, dataplane.LinkName{Name: dataplane.OverlayLink, Not: true}
	members := f.members("")
	local := node.Pods
	if len(node.Running) > 0 {
		local = singles(node.Running)
	}
	// Peers may call addresses that IP objects expose, even addresses of this node: its own, and those of Services that kube-proxy (IPVS)
	// assigns to every node. Peers may call Liqo's own pods only through their Services, because other ports of these pods, such as the metrics port,
	// require no authentication.
	own, exposed := slices.Concat(node.Addresses, host.Addresses, f.System), []netip.Addr{}
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
	// An encapsulated packet must not be translated. The kernel computed its outer checksum for an inner packet whose checksum the hardware
	// completes, and a translation corrupts the outer checksum (seen as InCsumErrors).
	//
	// Without this rule, the packet would be translated: it still has the mark with which kube-proxy requested a masquerade of the inner packet, because the
	// identity rule below decided first and nothing cleared the mark. CNIs also masquerade packets from hosts to pods.
	nat := []dataplane.FilterRule{{Match: toOverlay(only(node.IP), dataplane.Selector{}, anywhere), Verdict: dataplane.KeepSource}}
	if !f.Options.FullMasquerade {
		// A pod's source address stays: the identity rule prevents the CNI's own masquerade. But if a pod of another node called a Service
		// through this node, the answer must pass this node.
		nat = append(nat,
			dataplane.FilterRule{Match: dataplane.Match{OutLink: overlay, Source: dataplane.Selector{Set: "local", Not: true}, DestinationTranslated: true}, Verdict: dataplane.ToSource, Address: node.IP},
			dataplane.FilterRule{Match: dataplane.Match{OutLink: overlay, Source: dataplane.Selector{Set: "pods"}}, Verdict: dataplane.KeepSource})
	}
	nat = append(nat,
		dataplane.FilterRule{Match: dataplane.Match{OutLink: overlay}, Verdict: dataplane.ToSource, Address: node.IP},
		// A peer called a Service. The Service's pod may run on another node, and its answer must pass this node.
		dataplane.FilterRule{Match: dataplane.Match{InLink: overlay, DestinationTranslated: true}, Verdict: dataplane.Masquerade},
		dataplane.FilterRule{Match: dataplane.Match{InLink: overlay, Destination: dataplane.Selector{Set: "pods"}}, Verdict: dataplane.KeepSource},
		// A peer called a host outside the cluster. That host does not know the addresses under which this cluster sees the peer.
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
				// Only members may send to the overlay port of members. A gateway cannot check this alone: packets from another node may have
				// any of that node's addresses in the pod network, because CNIs masquerade packets from hosts to pods. So each node drops such
				// packets of its own pods. Inside the overlay, the same port is free for other uses.
				{Match: toOverlay(dataplane.Selector{Set: "members"}, dataplane.Selector{}, elsewhere), Verdict: dataplane.Return},
				drop(toOverlay(dataplane.Selector{Set: "local"}, dataplane.Selector{Set: "members"}, elsewhere)),
				drop(dataplane.Match{InLink: elsewhere, Source: dataplane.Selector{Set: "remotes"}}),
				drop(dataplane.Match{InLink: overlay, Source: dataplane.Selector{Set: "remotes", Not: true}}),
			}},
			// This chain runs before the translation of Services, so that node ports do not bypass the check.
			{Name: "guard", Hook: dataplane.Prerouting, Priority: dataplane.Mangle, Rules: []dataplane.FilterRule{
				drop(dataplane.Match{InLink: overlay, Destination: dataplane.Selector{Set: "own"}, NewOrInvalid: true}),
			}},
			// This chain also covers addresses that the host got since the agent last read them: the overlay listens on those too.
			{Name: "host", Hook: dataplane.Input, Priority: dataplane.Filter, Rules: []dataplane.FilterRule{
				drop(toOverlay(dataplane.Selector{Set: "members", Not: true}, dataplane.Selector{}, anywhere)),
				{Match: dataplane.Match{InLink: overlay, DestinationTranslated: true}, Verdict: dataplane.Accept},
				drop(dataplane.Match{InLink: overlay, Destination: dataplane.Selector{Set: "exposed", Not: true}, NewOrInvalid: true}),
			}},
			{Name: "source", Hook: dataplane.Postrouting, NAT: true, Priority: dataplane.SourceNAT - 1, Rules: nat},
		},
	}
}
