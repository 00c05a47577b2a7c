package datapath

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/network"
)

// TestExplanationsMatchTheKernel sends random packets through a gateway, from the overlay and from a tunnel with a hostile peer. For each packet, the
// explanation must say what the kernel does.
func TestExplanationsMatchTheKernel(t *testing.T) {
	w := hub(t)
	rome := w.rome
	rome.expose(network.Exposed{Kind: network.KindHost, Real: addr("10.96.0.1"), Object: "liqo/api-server"})
	rome.expose(network.Exposed{Kind: network.KindPeer, Real: addr("10.75.2.5"), Object: "demo/in-turin"})
	rome.expose(network.Exposed{Kind: network.KindPeer, Real: addr("10.71.2.5"), Object: "demo/in-milan"})
	w.ready(t)
	hostile, gw, tunnel := w.milan.gateways["rome"], rome.gateways["milan"], rome.tunnels["milan"]
	w.milan.tunnels["rome"].unbind(t)
	// This end accepts all packets, so that the filter has to decide about them.
	tunnel.unbind(t)

	self := network.Self{ClusterID: "milan", IP: gw.podIP(t), Node: rome.nodes[0].name, MTU: 1500}
	plan := network.CompileGateway(&rome.Facts, self, network.Tunnel{}, network.FirstChoice(&rome.Facts))
	own := []netip.Addr{self.IP, network.ClientAddress().Addr()}

	r := rand.New(rand.NewPCG(6, 1))
	some := []netip.Addr{addr("172.16.0.1"), addr("172.16.0.2"), addr(printer), addr("10.96.0.1"), addr("8.8.8.8"), addr("10.99.0.1"), self.IP,
		network.ServerAddress().Addr(), network.ClientAddress().Addr()}
	for _, e := range rome.Facts.Exposed {
		some = append(some, e.Real, e.External)
	}
	for i := range rome.Facts.Peers {
		for _, remap := range rome.Facts.Peers[i].Remaps() {
			for _, p := range []netip.Prefix{remap.Real, remap.View} {
				a := p.Addr().As4()
				a[2], a[3] = byte(1+r.IntN(2)), 5
				some = append(some, netip.AddrFrom4(a))
			}
		}
	}
	pick := func() netip.Addr { return some[r.IntN(len(some))] }
	for _, way := range []struct {
		from, to string
		inject   func(packet []byte)
	}{
		{dataplane.TunnelLink, dataplane.OverlayLink, hostile.injector(t, dataplane.TunnelLink, netip.Addr{})},
		{dataplane.OverlayLink, dataplane.TunnelLink, rome.nodes[0].injector(t, dataplane.OverlayLink, self.IP)},
	} {
		const packets = 4000
		want, passed := map[uint16]string{}, 0
		c := &capture{}
		c.on(t, gw, way.to)
		for i := range uint16(packets) {
			p, id := network.Packet{Source: pick(), Destination: pick(), Transport: dataplane.UDP, Port: 20000 + i}, 20000+i
			bytes := datagram(p.Source, p.Destination, id, nil)
			if r.IntN(2) == 0 {
				p.Transport, p.Port, p.Quoted = dataplane.ICMP, 0, &network.Quoted{Source: pick(), Destination: pick()}
				message := append([]byte{[]byte{3, 11, 12}[r.IntN(3)], 1, 0, 0, 0, 0, 0, 0}, datagram(p.Quoted.Source, p.Quoted.Destination, id, nil)...)
				sum := checksum(message)
				message[2], message[3] = byte(sum>>8), byte(sum)
				bytes = icmpPacket(p.Source, p.Destination, message)
			}
			if out, link, ok := network.Pass(&plan, p, way.from, own...); ok && link == way.to {
				want[id] = out.String()
				passed++
			}
			way.inject(bytes)
			if i%100 != 99 {
				continue
			}
			// The answer to a ping shows that the packets sent before it were processed. Queues hold a few hundred packets.
			if err := rome.pods[0].ping(w.probe(t), 9); err != nil {
				t.Fatal(err)
			}
		}
		got := map[uint16]string{}
		for _, s := range c.stop(t, func(p packet) bool {
			return p.protocol == unix.IPPROTO_UDP && p.port >= 20000 && p.port < 20000+packets
		}) {
			if !s.outgoing {
				continue
			}
			out, id := network.Packet{Source: s.packet.source, Destination: s.packet.destination}, s.packet.port
			if about := s.packet.about; about != nil {
				out.Quoted, id = &network.Quoted{Source: about.source, Destination: about.destination}, about.port
			}
			got[id] = out.String()
		}
		for id := range uint16(packets) {
			if id += 20000; want[id] != got[id] {
				t.Errorf("from %s, packet %d: the kernel sent %q, the explanation says %q", way.from, id, got[id], want[id])
			}
		}
		if passed < packets/100 {
			t.Errorf("from %s only %d of %d packets pass: the test does not try what matters", way.from, passed, packets)
		}
		t.Logf("from %s: %d of %d packets pass", way.from, passed, packets)
	}
}
