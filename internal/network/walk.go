package network

import (
	"fmt"
	"net/netip"
	"slices"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/ipam"
)

// Names of links outside Liqo in a walk.
const (
	podLink     = "pod"
	outsideLink = "outside"
)

// sampleMTU is used as the MTU of all links, in bytes. A walk does not depend on the MTU.
const sampleMTU = 1500

// walk follows packets through the compiled plans of all hosts on their path, in all clusters.
type walk struct {
	clusters []Cluster
	hops     []Hop
	fault    *Fault
	// flows are the connections of the call: as it was sent, and as connection tracking on the nodes knows them.
	flows []flow
}

// flow is a connection whose source a node translated. A flow without a node is a call with the addresses that it had when it left its cluster.
type flow struct {
	cluster, node string
	before, after Packet
}

// arrival is the point at which a packet arrived.
type arrival struct {
	cluster *Cluster
	node    Node
	packet  Packet
	// in is the link of the node by which the packet reached its destination: a pod's link, empty for the node itself, or the link out of the
	// cluster. An answer enters the node by the same link.
	in string
}

func (w *walk) cluster(id string) *Cluster {
	i := slices.IndexFunc(w.clusters, func(c Cluster) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &w.clusters[i]
}

func (w *walk) broken(c *Cluster, object, format string, args ...any) *arrival {
	w.fault = &Fault{Cluster: c.ID, Object: object, Text: fmt.Sprintf(format, args...)}
	return nil
}

func (w *walk) hop(c *Cluster, kind, name string, steps []Step) {
	w.hops = append(w.hops, Hop{Cluster: c.ID, Kind: kind, Name: name, Steps: steps})
}

// leave sends a packet that starts on a node into the overlay: in a pod (in is its link) or on the node itself (in is empty). A fresh
// packet opens a connection.
func (w *walk) leave(c *Cluster, node Node, packet Packet, in string, fresh bool) *arrival {
	state := CompileNode(&c.Facts, Host{Name: node.Name, MTU: sampleMTU}, c.active())
	p := &passage{state: &state, packet: packet, in: in, fresh: fresh}
	if in != "" && !p.filter(dataplane.Prerouting) {
		w.hop(c, "node", node.Name, p.steps)
		return w.broken(c, "Node "+node.Name, "the node drops packets from %s: the address is in a range under which this cluster sees a peer, and such packets may arrive only through the overlay; give the pod or host an address outside of these ranges", packet.Source)
	}
	if !fresh {
		w.untranslate(c, node, p)
	}
	route, ok := p.route()
	if !ok || route.Type == dataplane.Unreachable {
		w.hop(c, "node", node.Name, p.steps)
		if ok {
			return w.noGateway(c, p.packet.Destination)
		}
		return w.broken(c, "Node "+node.Name, "the node has no route of Liqo to %s: it is no address under which this cluster sees a peer; call the address that explain prints for the pod, or connect its cluster with liqoctl network connect", p.packet.Destination)
	}
	if !p.packet.Source.IsValid() {
		p.packet.Source = route.Source
	}
	return w.onward(c, node, p, route)
}

// forward sends a packet for a peer that arrived through the overlay back into the overlay.
func (w *walk) forward(c *Cluster, node Node, p *passage) *arrival {
	route, ok := p.route()
	if !ok || route.Type == dataplane.Unreachable {
		w.hop(c, "node", node.Name, p.steps)
		return w.noGateway(c, p.packet.Destination)
	}
	return w.onward(c, node, p, route)
}

// onward sends a packet from a node into the overlay.
func (w *walk) onward(c *Cluster, node Node, p *passage, route dataplane.Route) *arrival {
	before := p.packet
	p.filter(dataplane.Forward)
	p.translate(node.IP)
	if p.packet != before {
		w.flows = append(w.flows, flow{c.ID, node.Name, before, p.packet})
	}
	w.hop(c, "node", node.Name, p.steps)
	return w.outward(c, route.Via, p.packet)
}

// outward sends a packet from the overlay through the gateway pod with the address via.
func (w *walk) outward(c *Cluster, via netip.Addr, packet Packet) *arrival {
	peer, candidate, ok := c.gateway(via)
	if !ok {
		return w.broken(c, "Pod with address "+via.String(), "no gateway has the address of the route's next hop; wait for the agent of the node to update the route, or restart its liqo-fabric pod")
	}
	p, done := w.throughGateway(c, &peer, candidate, packet, dataplane.OverlayLink)
	if !done {
		return w.broken(c, "Pod "+peer.Namespace+"/"+candidate.Pod, "the gateway drops %s: %s is neither a pod of this cluster nor exposed by an IP object, or the destination is not cluster %q's; create an IP object with spec.ip %s, or call an address of that cluster", packet, packet.Source, peer.ClusterID, packet.Source)
	}
	return w.tunnel(c, &peer, p.packet)
}

// throughGateway sends a packet through a gateway pod. The packet arrives on link in of the pod. It reports whether the packet leaves through the other link.
func (w *walk) throughGateway(c *Cluster, peer *Peer, candidate Candidate, packet Packet, in string) (*passage, bool) {
	state := CompileGateway(&c.Facts, Self{ClusterID: peer.ClusterID, IP: candidate.IP, Node: candidate.Node, MTU: sampleMTU}, Tunnel{}, c.active())
	p := &passage{state: &state, packet: packet, in: in, fresh: true}
	passes := p.through(candidate.IP)
	w.hop(c, "gateway", candidate.Pod, p.steps)
	return p, passes
}

// tunnel sends a packet to the other cluster.
func (w *walk) tunnel(c *Cluster, peer *Peer, packet Packet) *arrival {
	other := w.cluster(peer.ClusterID)
	if other == nil {
		return w.broken(c, "cluster "+peer.ClusterID, "its network is unknown, because its objects were not read: give its kubeconfig too")
	}
	if peer.Connection != networkingv1beta1.Connected {
		return w.broken(c, "Connection "+peer.Namespace+"/gw-"+peer.Gateway, "status.value is %q, not Connected: the tunnel to cluster %q does not work; run liqoctl network connect again with the kubeconfigs of both clusters, which prints the cause", peer.Connection, peer.ClusterID)
	}
	back, ok := other.Facts.Peer(c.ID)
	if !ok {
		return w.incomplete(other, c.ID)
	}
	if back.Role == peer.Role {
		return w.broken(other, string(back.Role)+" of cluster "+c.ID, "both clusters have a %s, but one of them must have the other kind; run liqoctl network reset, then liqoctl network connect", back.Role)
	}
	allowed := slices.ContainsFunc(back.Remaps(), func(r ipam.Remap) bool { return r.Real.Contains(packet.Source) })
	w.hop(c, "tunnel", c.ID+" > "+other.ID, []Step{{By: "wireguard " + dataplane.TunnelLink, Before: packet, After: packet}})
	if !allowed {
		return w.broken(other, "Configuration "+back.Namespace+"/"+c.ID, "the tunnel drops packets from %s: the address is in no range of spec.remote.cidr (%s); correct spec.remote.cidr to what liqoctl generate configuration prints in the other cluster", packet.Source, prefixes(back.Remaps(), false))
	}
	return w.inward(other, &back, packet)
}

// inward sends a packet from the tunnel through a gateway to a node, or to the gateway of a third cluster.
func (w *walk) inward(c *Cluster, peer *Peer, packet Packet) *arrival {
	candidate, ok := c.candidate(peer)
	if !ok {
		return w.noGateway(c, firstOf(peer.Views()))
	}
	p, done := w.throughGateway(c, peer, candidate, packet, dataplane.TunnelLink)
	if !done {
		return w.broken(c, "Pod "+peer.Namespace+"/"+candidate.Pod, "the gateway drops %s: the destination is neither a pod of this cluster on one of its nodes nor exposed by an IP object, or the source is not cluster %q's; create an IP object for the address, or compare the pod CIDRs of the nodes with Network pod-cidr", packet, peer.ClusterID)
	}
	route, _ := p.route()
	if i := slices.IndexFunc(c.Facts.Nodes, func(n Node) bool { return n.IP == route.Via }); i >= 0 {
		return w.arrive(c, c.Facts.Nodes[i], p.packet)
	}
	return w.outward(c, route.Via, p.packet)
}

// arrive takes a packet from the overlay to its destination.
func (w *walk) arrive(c *Cluster, node Node, packet Packet) *arrival {
	state := CompileNode(&c.Facts, Host{Name: node.Name, MTU: sampleMTU}, c.active())
	known := slices.ContainsFunc(w.flows, func(f flow) bool {
		return f.cluster == c.ID && f.node == node.Name && f.after.Source == packet.Destination && f.after.Destination == packet.Source
	})
	// An answer to the node's own call is not fresh, although the call was not translated.
	p := &passage{state: &state, packet: packet, in: dataplane.OverlayLink, fresh: !known && !w.called(c, packet)}
	end := &arrival{cluster: c, node: node, in: podLink}
	if !p.filter(dataplane.Prerouting) {
		w.hop(c, "node", node.Name, p.steps)
		if slices.Contains(c.Facts.System, packet.Destination) {
			return w.broken(c, "Node "+node.Name, "the node drops %s: peers may answer Liqo's own pods, but not call them; call a Service, whose address an IP object exposes", packet)
		}
		return w.broken(c, "Node "+node.Name, "the node drops %s: peers may answer nodes, but not call them unless an IP object exposes the address; create an IP object with spec.ip %s", packet, packet.Destination)
	}
	w.untranslate(c, node, p)
	local := slices.Contains(node.Addresses, p.packet.Destination)
	if !local && slices.ContainsFunc(c.Facts.Peers, func(peer Peer) bool { return contains(peer.Views(), p.packet.Destination) }) {
		return w.forward(c, node, p) // a node of one peer calls another peer, or receives an answer
	}
	switch {
	case local:
		end.in = ""
		if !p.filter(dataplane.Input) {
			w.hop(c, "node", node.Name, p.steps)
			return w.broken(c, "Node "+node.Name, "the node drops %s: peers may not call nodes; create an IP object with spec.ip %s", packet, packet.Destination)
		}
	case contains(c.Facts.Services, p.packet.Destination):
		p.translated = true
		p.note("kube-proxy: one of the service's pods", p.packet)
		fallthrough
	default:
		p.out = either(contains(c.Facts.Pods, p.packet.Destination) || p.translated, podLink, outsideLink)
		end.in = p.out
		before := p.packet
		p.translate(node.IP)
		if p.packet != before {
			w.flows = append(w.flows, flow{c.ID, node.Name, before, p.packet})
		}
	}
	p.note(map[string]string{"": "it is for the node itself", podLink: "the pod network delivers it", outsideLink: "it leaves the cluster"}[end.in], p.packet)
	w.hop(c, "node", node.Name, p.steps)
	end.packet = p.packet
	return end
}

// called reports whether the packet is an answer: a packet with source and destination exchanged left this cluster before.
func (w *walk) called(c *Cluster, packet Packet) bool {
	return slices.ContainsFunc(w.flows, func(f flow) bool {
		return f.cluster == c.ID && f.node == "" && f.before.Source == packet.Destination && f.before.Destination == packet.Source
	})
}

// untranslate reverses the translation of the source in answers, as connection tracking does.
func (w *walk) untranslate(c *Cluster, node Node, p *passage) {
	for _, f := range w.flows {
		if f.cluster == c.ID && f.node == node.Name && f.after.Source == p.packet.Destination && f.after.Destination == p.packet.Source {
			before := p.packet
			p.packet.Source, p.packet.Destination = f.before.Destination, f.before.Source
			if p.packet.Quoted != nil {
				p.packet.Quoted = &Quoted{f.before.Source, f.before.Destination}
			}
			p.note("connection tracking: the answer goes to the client", before)
			return
		}
	}
}

func (w *walk) noGateway(c *Cluster, view netip.Addr) *arrival {
	for i := range c.Facts.Peers {
		if p := &c.Facts.Peers[i]; contains(p.Views(), view) {
			return w.broken(c, "Gateway"+string(p.Role)+" "+p.Namespace+"/"+p.Gateway, "no pod of the gateway has an address: see its Deployment gw-%s", p.Gateway)
		}
	}
	return w.broken(c, "address "+view.String(), "this cluster sees no peer under this address; connect the peer with liqoctl network connect")
}

// incomplete sets the fault for a peer that is not complete in a cluster.
func (w *walk) incomplete(c *Cluster, peer string) *arrival {
	for _, p := range c.Problems {
		if p.ClusterID == peer {
			return w.broken(c, p.Object, "%s", p.Text)
		}
	}
	return w.broken(c, "Configuration "+peer, "there is none for cluster %q: connect the clusters with liqoctl network connect", peer)
}

func firstOf(prefixes []netip.Prefix) netip.Addr {
	if len(prefixes) == 0 {
		return netip.Addr{}
	}
	return prefixes[0].Addr()
}
