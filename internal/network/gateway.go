package network

import (
	"net/netip"
	"slices"
	"time"

	"liqo.io/liqo/internal/dataplane"
)

// Self describes the pod in which a gateway's agent runs, as the agent itself knows it.
type Self struct {
	// ClusterID is the ID of the peer that the gateway is for.
	ClusterID string
	// IP is the address of the pod, and Node is the node that runs it.
	IP   netip.Addr
	Node string
	// MTU is the MTU of the pod's link, in bytes.
	MTU int
}

// Tunnel holds the settings of WireGuard that the facts do not contain: keys and the endpoint.
type Tunnel struct {
	PrivateKey dataplane.PrivateKey
	// ListenPort is the UDP port; 0: the kernel chooses.
	ListenPort uint16
	// Peers are the keys of the far gateway; see Rotation. Empty while the gateway must not communicate.
	Peers []TunnelPeer
}

// TunnelPeer is one key of the peer's gateway.
type TunnelPeer struct {
	Key dataplane.PublicKey
	// Endpoint is the endpoint to dial; not valid for servers, which learn it from the client's packets.
	Endpoint netip.AddrPort
	// Carries means that WireGuard sends the traffic with this key. Exactly one of several keys carries traffic; with the others, the gateway only
	// performs handshakes.
	Carries bool
}

// TunnelMTU returns the MTU in bytes of a tunnel over a link with the MTU link: link minus WireGuard's overhead, but at most the limit in
// the gateway's spec. endpoints are the resolved addresses of host names, which the server cannot know.
//
// If any address that leads to the server is IPv6, TunnelMTU uses the overhead of IPv6, whichever address is in use. So both ends compute
// the same MTU, and the MTU stays when a client tries the next address.
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

// CompileGateway returns the state that a gateway pod needs in the kernel of its network namespace. active are the addresses of the active
// gateway pods of the other peers, by cluster ID. If the peer is not complete, the state is empty, and the pod forwards nothing.
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
			// This rule is for ICMP errors that this pod itself sends to the peer's pods, for example that a packet is too big. The CNI would route
			// them back to this pod.
			{Priority: DefaultRulePriority + 2, InLink: "lo", Table: dataplane.OverlayTable},
		},
	}
	if tunnel.PrivateKey != (dataplane.PrivateKey{}) { // the key is in a Secret
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

// throughNode routes packets that nodes of the peer send to other peers through the gateway's own node. A node of the peer sends such packets when a
// client calls a node port there and the endpoint runs at another provider of this cluster. The other provider does not know that node, and the node
// has no address in this cluster's external CIDR. So the gateway's own node masquerades the packets. Addresses that an IP object exposes are exempt:
// the other provider knows an address for them, and answers to that.
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
			// Use the table for packets from the overlay. These packets are never for another peer, because they may leave only through the
			// tunnel.
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

// overlayNeighbours returns the nodes and the gateways of other peers as neighbours.
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

// gatewayRoutes adds the routes for packets from the tunnel. The first route to a destination takes precedence.
func gatewayRoutes(f *Facts, self Self, active map[string]netip.Addr, routes routes) {
	to := func(destination netip.Prefix, via netip.Addr) {
		routes.add(dataplane.Route{Table: dataplane.TunnelTable, Destination: destination.Masked(), Via: via, Link: dataplane.OverlayLink, OnLink: true})
	}
	for _, n := range f.Nodes {
		to(single(n.IP), n.IP)
	}
	for _, s := range f.OutOfCIDRPods {
		if n, ok := f.Node(s.Node); ok {
			to(single(s.IP), n.IP)
		}
	}
	// Exposed addresses of Services, and of hosts outside the cluster, are reached through the gateway's own node.
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
			peer.Keepalive = time.Second // only a keepalive makes WireGuard perform a handshake with this key
		}
		device.Peers = append(device.Peers, peer)
	}
	return device
}
