package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Cluster is the input of Explain for one cluster.
type Cluster struct {
	ID    string
	Facts Facts
	// Active has the addresses of the gateway pods that nodes route to, by cluster ID of the peer. For a peer that is not in Active, Explain uses
	// FirstChoice.
	Active map[string]netip.Addr
	// Problems are the problems that Gather returned.
	Problems []Problem
}

// End is one end of a path.
type End struct {
	Cluster string
	// Name is a name for people: namespace/name of a pod, or the name of a node.
	Name string
	// Address is the address in the end's own cluster.
	Address netip.Addr
	// Node is the node that runs the end. A path can only start at an end with a node.
	Node string
}

// Explanation describes the path of a packet from one end to the other and of its answer.
type Explanation struct {
	From, To End
	// Address is the address under which From sees To. Programs at From must call this address.
	Address netip.Addr
	// Seen is the address under which To sees From.
	Seen netip.Addr
	// There and Back are the hops of the packet and of its answer. If the path is broken, they end at the fault.
	There, Back []Hop
	// Fault is where and why the path is broken; nil if it works.
	Fault *Fault
}

// Hop is a host or a tunnel on the path of a packet.
type Hop struct {
	Cluster string
	// Kind is node, gateway or tunnel.
	Kind string
	// Name is the name of the node or of the gateway pod. For a tunnel, it names both clusters.
	Name string
	// Steps are the events of the packet at this hop.
	Steps []Step
}

// Fault describes where and why a path is broken.
type Fault struct {
	// Cluster is the ID of the cluster, and Object the object, where the fault is.
	Cluster, Object string
	// Text says what is wrong and how to fix it.
	Text string
}

func (f *Fault) String() string {
	return fmt.Sprintf("cluster %s: %s: %s", f.Cluster, f.Object, f.Text)
}

// Explain follows a packet from one end to the other and its answer back. It uses the same plans that the hosts apply.
func Explain(clusters []Cluster, from, to End) Explanation {
	e := Explanation{From: from, To: to}
	w := &walk{clusters: clusters}
	c := w.cluster(from.Cluster)
	if c == nil || w.cluster(to.Cluster) == nil {
		e.Fault = &Fault{Cluster: either(c == nil, from.Cluster, to.Cluster), Object: "cluster", Text: "its network is unknown, because its objects were not read; give its kubeconfig too (--remote-kubeconfig), or its folder"}
		return e
	}
	node, ok := c.Facts.Node(from.Node)
	if !ok {
		e.Fault = &Fault{Cluster: from.Cluster, Object: "Node " + from.Node, Text: fmt.Sprintf("%s does not run on a node of this cluster; start from a pod or a node that does", from)}
		return e
	}
	if e.Address = w.seenFrom(c, to); w.fault != nil {
		e.Fault = w.fault
		return e
	}
	in := podLink
	if slices.Contains(node.Addresses, from.Address) {
		in = ""
	}
	sent := Packet{Source: from.Address, Destination: e.Address}
	w.flows = append(w.flows, flow{cluster: c.ID, before: sent})
	end := w.leave(c, node, sent, in, true)
	e.There, w.hops = w.hops, nil
	if end == nil {
		e.Fault = w.fault
		return e
	}
	e.Seen = end.packet.Source
	home := w.answer(end, end.packet.Answer())
	e.Back = w.hops
	switch {
	case home == nil:
		e.Fault = w.fault
	case home.packet.Source != sent.Destination || home.packet.Destination != sent.Source:
		e.Fault = &Fault{Cluster: from.Cluster, Object: "Node " + home.node.Name, Text: fmt.Sprintf("the answer to %s arrives as %s, so the client discards it; compare the Configurations of both clusters: each must have the ranges of the other", sent, home.packet)}
	}
	return e
}

// answer follows the answering packet, which starts where the request arrived.
func (w *walk) answer(end *arrival, packet Packet) *arrival {
	return w.leave(end.cluster, end.node, packet, end.in, false)
}

// seenFrom returns the address under which a cluster sees an end in another cluster: directly, or through a cluster that is peered with
// both and exposes the end.
func (w *walk) seenFrom(c *Cluster, to End) netip.Addr {
	if c.ID == to.Cluster {
		return to.Address
	}
	far := w.cluster(to.Cluster)
	if w.peered(c, far.ID) || w.peered(far, c.ID) {
		return w.between(c, far, to.Address)
	}
	for i := range w.clusters {
		hub := &w.clusters[i]
		if w.peered(c, hub.ID) && w.peered(hub, to.Cluster) {
			if address := w.between(hub, far, to.Address); w.fault == nil {
				return w.between(c, hub, address)
			}
			return netip.Addr{}
		}
	}
	w.incomplete(c, to.Cluster)
	return netip.Addr{}
}

// between returns the address under which a cluster sees an address of its peer.
func (w *walk) between(c, far *Cluster, address netip.Addr) netip.Addr {
	there, ok := far.Facts.Translation(c.ID)
	if !ok {
		w.incomplete(far, c.ID)
		return netip.Addr{}
	}
	here, ok := c.Facts.Translation(far.ID)
	if !ok {
		w.incomplete(c, far.ID)
		return netip.Addr{}
	}
	wire, err := there.ToWire(address)
	if err != nil {
		object := "IP object with spec.ip " + address.String()
		for _, e := range far.Facts.Unexposed {
			if e.Real == address {
				w.broken(far, "IP "+e.Object, "label networking.liqo.io/host-unreachable=true hides %s from peers: remove the label", address)
				return netip.Addr{}
			}
		}
		for _, p := range far.Problems {
			if strings.HasPrefix(p.Object, "IP ") && strings.Contains(p.Text, address.String()) {
				object, err = p.Object, fmt.Errorf("%s", p.Text)
			}
		}
		w.broken(far, object, "%v", err)
		return netip.Addr{}
	}
	view, err := here.ToView(wire)
	if err != nil {
		peer, _ := c.Facts.Peer(far.ID)
		w.broken(c, "Configuration "+peer.Namespace+"/"+far.ID, "%v", err)
		return netip.Addr{}
	}
	return view
}

func (w *walk) peered(c *Cluster, other string) bool {
	_, ok := c.Facts.Peer(other)
	return ok
}

// active returns the addresses of the gateway pods that nodes of the cluster route to, by cluster ID of the peer.
func (c *Cluster) active() map[string]netip.Addr {
	choice := FirstChoice(&c.Facts)
	for id, addr := range c.Active {
		if addr.IsValid() {
			choice[id] = addr
		}
	}
	return choice
}

// gateway returns the gateway replica with an address, and its peer.
func (c *Cluster) gateway(ip netip.Addr) (Peer, Candidate, bool) {
	for _, p := range c.Facts.Peers {
		for _, candidate := range p.Candidates {
			if candidate.IP == ip {
				return p, candidate, true
			}
		}
	}
	return Peer{}, Candidate{}, false
}

// candidate returns the active gateway pod of a peer.
func (c *Cluster) candidate(p *Peer) (Candidate, bool) {
	_, candidate, ok := c.gateway(c.active()[p.ClusterID])
	return candidate, ok
}

func (e End) String() string {
	if e.Name == "" {
		return e.Address.String()
	}
	return fmt.Sprintf("%s (%s)", e.Name, e.Address)
}

// String returns the explanation as text for people.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "from %s in cluster %s to %s in cluster %s\n", e.From, e.From.Cluster, e.To, e.To.Cluster)
	if e.Address.IsValid() {
		fmt.Fprintf(&b, "%s is called as %s\n", e.To, e.Address)
	}
	if e.Seen.IsValid() {
		fmt.Fprintf(&b, "and sees %s\n", e.Seen)
	}
	for _, way := range []struct {
		title string
		hops  []Hop
	}{{"there", e.There}, {"back", e.Back}} {
		for i, h := range way.hops {
			if i == 0 {
				fmt.Fprintf(&b, "%s:\n", way.title)
			}
			fmt.Fprintf(&b, "  %s %s in cluster %s\n", h.Kind, h.Name, h.Cluster)
			for _, s := range h.Steps {
				if s.Before == s.After {
					fmt.Fprintf(&b, "    %s: %s\n", s.After, s.By)
				} else {
					fmt.Fprintf(&b, "    %s becomes %s: %s\n", s.Before, s.After, s.By)
				}
			}
		}
	}
	if e.Fault != nil {
		fmt.Fprintf(&b, "broken: %s\n", e.Fault)
	} else {
		fmt.Fprintln(&b, "the way is whole in both directions")
	}
	return b.String()
}
