package network

import (
	"net/netip"
	"slices"
	"time"

	"liqo.io/liqo/internal/dataplane"
)

// Self is what a gateway's agent knows by itself of the pod that it runs in.
type Self struct {
	// ClusterID is the peer that the gateway is for.
	ClusterID string
	// IP of the pod, and the Node that runs it.
	IP   netip.Addr
	Node string
	// MTU of the pod's link, in bytes.
	MTU int
}

// Tunnel is what WireGuard needs besides what the facts tell: keys, and where to dial.
type Tunnel struct {
	PrivateKey dataplane.PrivateKey
	// ListenPort is the UDP port; 0 lets the kernel choose.
	ListenPort uint16
	// Peers are the keys of the far gateway; see Rotation. None while nobody is to be talked to.
	Peers []TunnelPeer
}

// TunnelPeer is one key of the far gateway.
type TunnelPeer struct {
	Key dataplane.PublicKey
	// Endpoint to dial; not valid for servers, which are told by whoever calls.
	Endpoint netip.AddrPort
	// Carries tells that traffic goes to this key. Exactly one of several does: the others only shake hands.
	Carries bool
}

// TunnelMTU is the MTU of a tunnel over a link with this one: what WireGuard leaves of it, at most what the gateway's spec allows. One address
// of IPv6 among those that lead to the server is enough for the larger header, whichever is in use: so both ends say the same, and a client that
// tries the next address changes nothing. endpoints are those that names turned out to be; the server can't know of these.
func TunnelMTU(p *Peer, link int, endpoints ...netip.AddrPort) int {
	mtu := link - TunnelOverhead
	six := func(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }
	if slices.ContainsFunc(endpoints, func(e netip.AddrPort) bool { return six(e.Addr()) }) ||
		slices.ContainsFunc(p.Endpoints, func(text string) bool { a, err := netip.ParseAddr(text); return err == nil && six(a) }) {
		mtu = link - TunnelOverhead6
	}
	if p.MTU > 0 {
		mtu = min(mtu, p.MTU)
	}
	return mtu
}

// CompileGateway is what a gateway pod needs in the kernel of its network namespace. active are the gateway pods of the other peers, by
// cluster ID. While the peer is not complete that is nothing at all: nothing gets through.
func CompileGateway(f *Facts, self Self, tunnel Tunnel, active map[string]netip.Addr) dataplane.State {
	p, ok := f.Peer(self.ClusterID)
	if !ok {
		return dataplane.State{}
	}
	var endpoints []netip.AddrPort
	for _, t := range tunnel.Peers {
		endpoints = append(endpoints, t.Endpoint)
	}
	mtu := TunnelMTU(&p, self.MTU, endpoints...)
	near, far := ServerAddress(), ClientAddress()
	if p.Role == Client {
		near, far = far, near
	}
	state := dataplane.State{
		Links:      []dataplane.Link{overlay(f, self.IP, self.MTU), {Name: dataplane.TunnelLink, Kind: dataplane.Tunnel, MTU: mtu}},
		Addresses:  []dataplane.Address{{Link: dataplane.TunnelLink, Prefix: near}},
		Neighbours: overlayNeighbours(f, self),
		Table:      gatewayTable(f, &p, near.Addr(), far.Addr(), mtu),
		Rules: []dataplane.Rule{
			{Priority: DefaultRulePriority, InLink: dataplane.OverlayLink, Table: dataplane.OverlayTable},
			{Priority: DefaultRulePriority + 1, InLink: dataplane.TunnelLink, Table: dataplane.TunnelTable},
			// What this pod itself has to say to the peer's pods, that a packet of theirs is too big: by the CNI it would come back here.
			{Priority: DefaultRulePriority + 2, InLink: "lo", Table: dataplane.OverlayTable},
		},
	}
	if tunnel.PrivateKey != (dataplane.PrivateKey{}) { // it comes with a Secret
		state.WireGuard = []dataplane.WireGuard{wireguard(&p, tunnel, far.Addr())}
	}
	routes := routes{}
	for _, view := range p.Views() {
		routes.add(dataplane.Route{Table: dataplane.OverlayTable, Destination: view.Masked(), Via: far.Addr(), Link: dataplane.TunnelLink})
	}
	gatewayRoutes(f, self, active, routes)
	state.Rules = append(state.Rules, throughNode(f, &p, self, routes)...)
	routes.add(dataplane.Route{Table: dataplane.TunnelTable, Destination: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Type: dataplane.Unreachable})
	state.Routes = routes.all()
	return state
}

// throughNode leads what nodes of the peer send to other peers through the gateway's own node: a call of a node port, where the endpoint runs at
// another provider of ours. The other peer does not know these nodes and they have no address of our external CIDR, so our node masquerades them. What an
// IP object exposes has an address that the other peer knows, and is answered under it.
func throughNode(f *Facts, p *Peer, self Self, routes routes) []dataplane.Rule {
	own, ok := f.Node(self.Node)
	if !ok || len(f.Peers) < 2 {
		return nil
	}
	for i := range f.Peers {
		if f.Peers[i].ClusterID == p.ClusterID {
			continue
		}
		for _, view := range f.Peers[i].Views() {
			// By the table of packets from the overlay, which are never for another peer: they may only leave by the tunnel.
			routes.add(dataplane.Route{Table: dataplane.OverlayTable, Destination: view.Masked(), Via: own.IP, Link: dataplane.OverlayLink, OnLink: true})
		}
	}
	var rules []dataplane.Rule
	for _, external := range p.External {
		for _, e := range f.Exposed {
			if external.View.Contains(e.Real) {
				rules = append(rules, dataplane.Rule{Priority: DefaultRulePriority - 1, InLink: dataplane.TunnelLink, Source: single(e.Real), Table: dataplane.TunnelTable})
			}
		}
		rules = append(rules, dataplane.Rule{Priority: DefaultRulePriority, InLink: dataplane.TunnelLink, Source: external.View.Masked(), Table: dataplane.OverlayTable})
	}
	return rules
}

// overlayNeighbours are the nodes and the gateways of other peers.
func overlayNeighbours(f *Facts, self Self) []dataplane.Neighbour {
	var all []netip.Addr
	for _, n := range f.Nodes {
		all = append(all, n.IP)
	}
	for _, p := range f.Peers {
		if p.ClusterID == self.ClusterID {
			continue
		}
		for _, c := range p.Candidates {
			all = append(all, c.IP)
		}
	}
	return neighbours(self.IP, all)
}

// gatewayRoutes are where packets from the tunnel go. The first route to a destination counts.
func gatewayRoutes(f *Facts, self Self, active map[string]netip.Addr, routes routes) {
	to := func(destination netip.Prefix, via netip.Addr) {
		routes.add(dataplane.Route{Table: dataplane.TunnelTable, Destination: destination.Masked(), Via: via, Link: dataplane.OverlayLink, OnLink: true})
	}
	for _, n := range f.Nodes {
		to(single(n.IP), n.IP)
	}
	for _, s := range f.Strays {
		if n, ok := f.Node(s.Node); ok {
			to(single(s.IP), n.IP)
		}
	}
	// What is neither a pod nor a peer's is reached through the gateway's own node: services, and hosts outside.
	if own, ok := f.Node(self.Node); ok {
		for _, e := range f.Exposed {
			if e.Kind == KindHost {
				to(single(e.Real), own.IP)
			}
		}
	}
	for _, n := range f.Nodes {
		for _, pods := range n.Pods {
			to(pods, n.IP)
		}
	}
	for i := range f.Peers {
		p := &f.Peers[i]
		gateway, ok := active[p.ClusterID]
		if !ok || p.ClusterID == self.ClusterID {
			continue
		}
		for _, view := range p.Views() {
			to(view, gateway)
		}
	}
}

func wireguard(p *Peer, tunnel Tunnel, far netip.Addr) dataplane.WireGuard {
	device := dataplane.WireGuard{Link: dataplane.TunnelLink, PrivateKey: tunnel.PrivateKey, ListenPort: tunnel.ListenPort}
	for _, t := range tunnel.Peers {
		peer := dataplane.Peer{PublicKey: t.Key, Endpoint: t.Endpoint}
		if t.Carries {
			allowed := []netip.Prefix{single(far)}
			for _, r := range p.Remaps() {
				allowed = append(allowed, r.Real.Masked())
			}
			peer.AllowedIPs = sorted(allowed)
		} else if t.Endpoint.IsValid() {
			peer.Keepalive = time.Second // nothing but this makes it shake hands
		}
		device.Peers = append(device.Peers, peer)
	}
	return device
}
