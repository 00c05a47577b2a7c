package datapath

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/network"
)

// refusal is a packet that must be dropped, and the rule that counts it.
type refusal struct {
	name   string
	from   *host
	link   string
	via    netip.Addr // the neighbour to send to on that link
	packet []byte
	// by is the host whose rule drops the packet, rule the start of the rule's text.
	by      *host
	devices *tunnel
	rule    string
	// never are hosts that must not receive the packet. port identifies the packet there.
	never []*host
}

const injected = 4242 // the destination port of packets that must not arrive

func (w *world) refuse(t *testing.T, r refusal) {
	t.Helper()
	t.Run(r.name, func(t *testing.T) {
		// A nil pointer of type *tunnel would not be a nil kernel.Devices.
		count := func() uint64 {
			if r.devices == nil {
				return dropped(t, r.by, nil, r.rule)
			}
			return dropped(t, r.by, r.devices, r.rule)
		}
		if err := w.rome.pods[0].ping(w.probe(t), 9); err != nil { // this also resolves the neighbours
			t.Fatal(err)
		}
		before := uint64(0)
		if r.rule != "" {
			before = count()
		}
		c := listen(t, w.all()...)
		r.from.inject(t, r.link, r.via, r.packet)
		// The answer to a ping shows that the packet sent before it was processed: both take the same path.
		if err := w.rome.pods[0].ping(w.probe(t), 9); err != nil {
			t.Errorf("what is allowed does not work: %v", err)
		}
		for _, s := range c.stop(t, udp(injected)) {
			for _, h := range r.never {
				if s.host == h.name && !s.outgoing {
					t.Errorf("it arrived: %s", s)
				}
			}
		}
		if r.rule != "" && count() != before+1 {
			t.Errorf("rule %q of %s counted %d packets, want 1", r.rule, r.by.name, count()-before)
		}
	})
}

// probe returns the address at which rome sees a pod of milan.
func (w *world) probe(t *testing.T) netip.Addr {
	return w.explain(t, w.rome.podEnd(t, 0), w.milan.podEnd(t, 0)).Address
}

// TestSpoofing: pods of a cluster cannot send packets from an address of a peer, nor put packets into the overlay.
func TestSpoofing(t *testing.T) {
	w := together(t).ready(t)
	rome, milan := w.rome, w.milan
	remote, local := addr("10.71.2.5"), rome.pods[1].podIP(t)
	everybody := append(append([]*host{}, rome.pods...), append(milan.pods, rome.outside, milan.outside)...)
	bridge := rome.Facts.Nodes[0].Pods[0].Addr().Next()
	if err := rome.outside.ping(rome.Facts.Nodes[0].IP, 9); err != nil { // resolves the neighbour
		t.Fatal(err)
	}
	gw, gwIP := rome.gateways["milan"], rome.gateways["milan"].podIP(t)

	w.refuse(t, refusal{name: "a pod as a remote pod", from: rome.pods[0], link: "eth0", via: bridge, packet: datagram(remote, local, injected, nil),
		by: rome.nodes[0], rule: `check: iifname != "liqo.vxlan" ip saddr @remotes`, never: everybody})
	inner := vxlan(datagram(remote, local, injected, nil), rome.Facts.Nodes[1].IP)
	w.refuse(t, refusal{name: "a pod into the overlay of another node", from: rome.pods[0], link: "eth0", via: bridge,
		packet: datagram(rome.pods[0].podIP(t), rome.Facts.Nodes[1].IP, network.DefaultOverlayPort, inner),
		by:     rome.nodes[0], rule: `check: iifname != "liqo.vxlan" ip saddr @local`, never: everybody})
	inner = vxlan(datagram(remote, rome.pods[0].podIP(t), injected, nil), rome.Facts.Nodes[0].IP)
	w.refuse(t, refusal{name: "a pod into the overlay of its node", from: rome.pods[0], link: "eth0", via: bridge,
		packet: datagram(rome.pods[0].podIP(t), rome.Facts.Nodes[0].IP, network.DefaultOverlayPort, inner),
		by:     rome.nodes[0], rule: `check: iifname != "liqo.vxlan" ip saddr @local`, never: everybody})
	inner = vxlan(datagram(local, addr("10.71.1.5"), injected, nil), gwIP)
	w.refuse(t, refusal{name: "a pod into a gateway, as another pod", from: rome.pods[0], link: "eth0", via: bridge,
		packet: datagram(rome.pods[0].podIP(t), gwIP, network.DefaultOverlayPort, inner),
		by:     rome.nodes[0], rule: `check: iifname != "liqo.vxlan" ip saddr @local`, never: everybody})
	inner = vxlan(datagram(remote, rome.pods[0].podIP(t), injected, nil), rome.Facts.Nodes[0].IP)
	w.refuse(t, refusal{name: "a host outside into the overlay of a node", from: rome.outside, link: "eth0", via: rome.Facts.Nodes[0].IP,
		packet: datagram(addr(printer), rome.Facts.Nodes[0].IP, network.DefaultOverlayPort, inner),
		by:     rome.nodes[0], rule: "host: ip saddr != @members", never: everybody})
	inner = vxlan(datagram(local, addr("10.71.1.5"), injected, nil), gwIP)
	w.refuse(t, refusal{name: "a host outside into a gateway", from: rome.nodes[0], link: "pod150", via: gwIP,
		packet: datagram(addr(printer), gwIP, network.DefaultOverlayPort, inner),
		by:     gw, devices: rome.tunnels["milan"], rule: "host: ip saddr != @inside", never: everybody})
	w.refuse(t, refusal{name: "the overlay from an address of nobody", from: rome.nodes[0], link: dataplane.OverlayLink, via: gwIP,
		packet: datagram(addr("192.0.2.200"), addr("10.71.1.5"), injected, nil),
		by:     gw, devices: rome.tunnels["milan"], rule: "out: counter drop", never: everybody})
	w.refuse(t, refusal{name: "a gateway as somebody who is no peer", from: gw, link: dataplane.OverlayLink, via: rome.Facts.Nodes[0].IP,
		packet: datagram(addr("10.99.0.1"), rome.pods[0].podIP(t), injected, nil),
		by:     rome.nodes[0], rule: `check: iifname "liqo.vxlan" ip saddr != @remotes`, never: everybody})
	t.Run("but the port is free elsewhere", func(t *testing.T) {
		rome.outside.serve(t, network.DefaultOverlayPort)
		if err := sees(rome.pods[1], netip.AddrPortFrom(addr(printer), network.DefaultOverlayPort), rome.Facts.Nodes[1].IP, 10); err != nil {
			t.Error(err)
		}
		rome.pods[1].serve(t, network.DefaultOverlayPort)
		if err := sees(rome.pods[0], netip.AddrPortFrom(local, network.DefaultOverlayPort), rome.pods[0].podIP(t), 10); err != nil {
			t.Errorf("between pods: %v", err)
		}
		e := w.explain(t, milan.podEnd(t, 0), rome.podEnd(t, 1))
		if err := sees(milan.pods[0], netip.AddrPortFrom(e.Address, network.DefaultOverlayPort), e.Seen, 10); err != nil {
			t.Errorf("from a remote pod: %v", err)
		}
	})
}

// TestPeersReachNothingElse: whatever packets a peer's gateway sends, they reach only pods and exposed addresses.
func TestPeersReachNothingElse(t *testing.T) {
	w := hub(t)
	w.rome.expose(network.Exposed{Kind: network.KindHost, Real: addr("10.96.0.1"), Object: "liqo/api-server"})
	w.ready(t)
	rome := w.rome
	hostile, pod := w.milan.gateways["rome"], w.milan.pods[0].podIP(t)
	w.milan.tunnels["rome"].unbind(t) // milan's tunnel may send packets to any address
	var everybody []*host
	for _, c := range w.all() {
		everybody = append(append(append(everybody, c.pods...), c.nodes...), c.outside)
	}
	for name, to := range map[string]string{
		"a node": "172.16.0.1", "a host beside the nodes": printer, "a service": "10.96.0.1", "the internet": "192.0.2.1",
		"another peer": "10.75.2.5", "an address of the external CIDR that nobody has": "10.70.99.99", "loopback": "127.0.0.1", "a multicast group": "224.0.0.1",
	} {
		w.refuse(t, refusal{name: name, from: hostile, link: dataplane.TunnelLink, packet: datagram(pod, addr(to), injected, nil),
			by: rome.gateways["milan"], devices: rome.tunnels["milan"], rule: "in: counter drop", never: everybody})
	}
	victim := rome.pods[0].podIP(t)
	for name, lie := range map[string]struct {
		about []byte
		rule  string
	}{
		"an error about a packet to somebody else": {datagram(victim, addr("192.0.2.1"), injected, nil), "in-quoted: counter drop"},
		"an error about a packet of nobody":        {datagram(addr("172.16.0.1"), pod, injected, nil), "in-quoted-source: counter drop"},
	} {
		message := append([]byte{3, 4, 0, 0, 0, 0, 600 >> 8, 600 & 0xff}, lie.about...)
		binary.BigEndian.PutUint16(message[2:], checksum(message))
		w.refuse(t, refusal{name: name, from: hostile, link: dataplane.TunnelLink, packet: icmpPacket(pod, victim, message),
			by: rome.gateways["milan"], devices: rome.tunnels["milan"], rule: lie.rule})
	}
	w.refuse(t, refusal{name: "as a pod of rome", from: hostile, link: dataplane.TunnelLink, packet: datagram(addr("10.99.0.1"), rome.pods[0].podIP(t), injected, nil), never: everybody})
	// WireGuard accepts only sources that rome's Configuration assigns to milan; the gateway's filter would drop others too.
	w.refuse(t, refusal{name: "past WireGuard", from: hostile, link: dataplane.TunnelLink, packet: datagram(network.ServerAddress().Addr(), rome.pods[0].podIP(t), injected, nil),
		by: rome.gateways["milan"], devices: rome.tunnels["milan"], rule: "in-source: counter drop", never: everybody})
}

// TestPeersCannotCallNodes: a pod of a peer cannot open a connection to a node, at any of its addresses and ports, although nodes can open
// connections to the pod.
func TestPeersCannotCallNodes(t *testing.T) {
	w := together(t).ready(t)
	rome, caller := w.rome, w.milan.pods[1]
	for _, n := range rome.nodes {
		n.serve(t, 8080)
	}
	rome.pods[0].serve(t, 8080)
	node := rome.Facts.Nodes[1]
	service(t, rome.nodes[1], rome.Facts.Pods[0], netip.AddrPortFrom(node.IP, 30080), netip.AddrPortFrom(rome.pods[0].podIP(t), 8080))
	bridge := node.Pods[0].Addr().Next()
	there, here := mustTranslation(t, rome, "milan"), mustTranslation(t, w.milan, "rome")
	for name, to := range map[string]netip.AddrPort{
		"its own port": netip.AddrPortFrom(node.IP, 8080), "a node port": netip.AddrPortFrom(node.IP, 30080), "its address in the pod network": netip.AddrPortFrom(bridge, 8080),
	} {
		wire, err := there.ToWire(to.Addr())
		if err != nil {
			t.Fatal(err)
		}
		view, err := here.ToView(wire)
		if err != nil {
			t.Fatal(err)
		}
		before := dropped(t, rome.nodes[1], nil, "guard: ")
		if seen, _, err := caller.udp(netip.AddrPortFrom(view, to.Port()), 10, silence); err == nil || !timedOut(err) {
			t.Errorf("%s: calling it gave %s, %v", name, seen, err)
		}
		if after := dropped(t, rome.nodes[1], nil, "guard: "); after != before+1 {
			t.Errorf("%s: the guard counted %d packets, want 1", name, after-before)
		}
	}
	// An ICMP error about a packet that nobody sent could reduce the MTU of a node for any destination.
	quoted := icmpPacket(node.IP, addr("8.8.8.8"), make([]byte, 8)) // an echo reply
	message := append([]byte{3, 4, 0, 0, 0, 0, 600 >> 8, 600 & 0xff}, quoted...)
	binary.BigEndian.PutUint16(message[2:], checksum(message))
	w.refuse(t, refusal{name: "an error about nothing", from: rome.gateways["milan"], link: dataplane.OverlayLink, via: node.IP,
		packet: icmpPacket(addr("10.71.1.5"), node.IP, message), by: rome.nodes[1], rule: "guard: "})
	t.Run("but they are answered", func(t *testing.T) {
		w.milan.pods[1].serve(t, 8080)
		e := w.explain(t, rome.nodeEnd(1), w.milan.podEnd(t, 1))
		if err := sees(rome.nodes[1], netip.AddrPortFrom(e.Address, 8080), e.Seen, 10); err != nil {
			t.Error(err)
		}
	})
	t.Run("and called where that is asked for", func(t *testing.T) {
		for i := range rome.Facts.Exposed {
			if rome.Facts.Exposed[i].Real == node.IP {
				rome.Facts.Exposed[i].Kind, rome.Facts.Exposed[i].Object = network.KindHost, "demo/my-node"
			}
		}
		rome.apply(t)
		e := w.explain(t, w.milan.podEnd(t, 1), rome.nodeEnd(1))
		if err := sees(caller, netip.AddrPortFrom(e.Address, 8080), e.Seen, 10); err != nil {
			t.Error(err)
		}
	})
}

// TestPodsOfLiqoAnswerOnly: a peer's pod can't call a pod of Liqo, but answers its calls. It can call other pods.
func TestPodsOfLiqoAnswerOnly(t *testing.T) {
	w := together(t).ready(t)
	rome, caller := w.rome, w.milan.pods[1]
	own := rome.pods[0]
	own.serve(t, 8082)
	caller.serve(t, 8080)
	e := w.explain(t, w.milan.podEnd(t, 1), rome.podEnd(t, 0))
	metrics := netip.AddrPortFrom(e.Address, 8082)
	if err := sees(caller, metrics, e.Seen, 10); err != nil {
		t.Fatalf("a pod like any other: %v", err)
	}
	rome.Facts.System = []netip.Addr{own.podIP(t)}
	rome.apply(t)
	before := dropped(t, rome.nodes[0], nil, "guard: ")
	if seen, _, err := caller.udp(metrics, 10, silence); err == nil || !timedOut(err) {
		t.Errorf("calling a pod of Liqo gave %s, %v", seen, err)
	}
	if after := dropped(t, rome.nodes[0], nil, "guard: "); after != before+1 {
		t.Errorf("the guard counted %d packets, want 1", after-before)
	}
	there := w.explain(t, rome.podEnd(t, 0), w.milan.podEnd(t, 1))
	if err := sees(own, netip.AddrPortFrom(there.Address, 8080), there.Seen, 10); err != nil {
		t.Errorf("the answer to a pod of Liqo: %v", err)
	}
}

// TestEmptyPlanRemovesEverything: a plan without peers removes everything of Liqo from the kernel, and nothing else.
func TestEmptyPlanRemovesEverything(t *testing.T) {
	w := together(t).ready(t)
	for _, h := range w.rome.nodes {
		apply(t, h, nil, dataplane.State{})
		if _, err := h.kernel.LinkByName(dataplane.OverlayLink); err == nil {
			t.Errorf("%s: the overlay is left", h.name)
		}
		all, err := tables(t, h).ListTables()
		if err != nil || len(all) != 1 || all[0].Name != "kubernetes" {
			t.Errorf("%s: tables %v: %v", h.name, all, err)
		}
		rules, err := h.kernel.RuleList(2)
		if err != nil || len(rules) != 3 { // local, main and default
			t.Errorf("%s: rules %v: %v", h.name, rules, err)
		}
	}
}

// vxlan returns the VXLAN packet that carries a packet to a member of the overlay.
func vxlan(packet []byte, member netip.Addr) []byte {
	b := make([]byte, 22)
	b[0] = 8
	binary.BigEndian.PutUint32(b[4:], network.OverlayVNI<<8)
	b[8], b[9] = 0x02, 0x4c
	copy(b[10:14], member.AsSlice())
	b[14] = 0x02
	b[20] = 8 // IPv4
	return append(b, packet...)
}
