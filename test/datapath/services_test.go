package datapath

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/network"
)

// TestErrorsOfRoutersArrive: a router before an exposed host has no address that peers see, but its ICMP error about a too big packet reaches the
// calling pod.
func TestErrorsOfRoutersArrive(t *testing.T) {
	w := together(t)
	w.rome.expose(network.Exposed{Kind: network.KindHost, Real: addr(printer), Object: "demo/printer"})
	w.ready(t)
	caller, gw := w.milan.pods[1], w.rome.gateways["milan"].podIP(t)
	e := w.explain(t, w.milan.podEnd(t, 1), w.rome.end("printer", printer))
	seen, err := mustTranslation(t, w.rome, "milan").ToView(caller.podIP(t)) // the source before the node masquerades it
	if err != nil {
		t.Fatal(err)
	}
	// The packet that the router quotes, and its "fragmentation needed" error with an MTU of 1000, as the node forwards it.
	quoted := datagram(seen, addr(printer), 8080, nil)
	tooBig := append([]byte{3, 4, 0, 0, 0, 0, 1000 >> 8, 1000 & 255}, quoted...)
	binary.BigEndian.PutUint16(tooBig[2:], checksum(tooBig))
	caller.must(t, func() error {
		c, err := net.DialUDP("udp4", &net.UDPAddr{Port: 40000}, net.UDPAddrFromAddrPort(netip.AddrPortFrom(e.Address, 8080)))
		if err != nil {
			return err
		}
		defer c.Close()
		w.rome.nodes[0].inject(t, dataplane.OverlayLink, gw, icmpPacket(addr("203.0.113.1"), seen, tooBig))
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		return learns(func() (mtu int, err error) {
			_ = raw.Control(func(fd uintptr) { mtu, err = unix.GetsockoptInt(int(fd), unix.SOL_IP, unix.IP_MTU) })
			return mtu, err
		}, 1000)
	})
}

// TestServices covers Services with remote pods, node ports, and services and hosts that IP objects expose.
func TestServices(t *testing.T) {
	w := together(t)
	rome, milan := w.rome, w.milan
	rome.expose(network.Exposed{Kind: network.KindHost, Real: addr("10.96.0.1"), Object: "liqo/api-server"})
	rome.expose(network.Exposed{Kind: network.KindHost, Real: addr("10.96.0.2"), Object: "demo/on-a-node"})
	rome.expose(network.Exposed{Kind: network.KindHost, Real: addr(printer), Object: "demo/printer"})
	w.ready(t)
	for _, h := range []*host{rome.pods[1], rome.outside, rome.nodes[0], milan.pods[0]} {
		h.serve(t, 8080)
	}
	remote := w.explain(t, rome.podEnd(t, 1), milan.podEnd(t, 0)).Address
	for i, n := range rome.nodes {
		service(t, n, rome.Facts.Pods[0], netip.MustParseAddrPort("10.96.0.1:443"), netip.AddrPortFrom(rome.pods[1].podIP(t), 8080))
		service(t, n, rome.Facts.Pods[0], netip.MustParseAddrPort("10.96.0.2:443"), netip.AddrPortFrom(rome.Facts.Nodes[0].IP, 8080))
		service(t, n, rome.Facts.Pods[0], netip.MustParseAddrPort("10.96.0.3:80"), netip.AddrPortFrom(remote, 8080))
		service(t, n, rome.Facts.Pods[0], netip.AddrPortFrom(rome.Facts.Nodes[i].IP, 30080), netip.AddrPortFrom(remote, 8080))
	}

	t.Run("local service with a remote pod", func(t *testing.T) {
		e := w.explain(t, rome.podEnd(t, 1), milan.podEnd(t, 0))
		w.exchange(t, "service with a remote pod", e, udp(80, 8080), func() error {
			return sees(rome.pods[1], netip.MustParseAddrPort("10.96.0.3:80"), e.Seen, 100)
		})
	})
	t.Run("node port", func(t *testing.T) {
		e := w.explain(t, rome.nodeEnd(1), milan.podEnd(t, 0))
		w.exchange(t, "node port", e, udp(30080, 8080), func() error {
			return sees(rome.outside, netip.AddrPortFrom(rome.Facts.Nodes[1].IP, 30080), e.Seen, 100)
		})
	})
	t.Run("node port, from a pod of another node", func(t *testing.T) { // with a CNI that does not masquerade packets from pods to nodes
		c := tables(t, rome.nodes[0])
		table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: "kubernetes"}
		c.InsertRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Name: "post", Table: table},
			Exprs: append(in(16, prefix("172.16.0.0/24"), expr.CmpOpEq), &expr.Verdict{Kind: expr.VerdictAccept})})
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		e := w.explain(t, rome.nodeEnd(1), milan.podEnd(t, 0))
		if err := sees(rome.pods[0], netip.AddrPortFrom(rome.Facts.Nodes[1].IP, 30080), e.Seen, 100); err != nil {
			t.Error(err)
		}
	})
	t.Run("node port beside the gateway", func(t *testing.T) {
		e := w.explain(t, rome.nodeEnd(0), milan.podEnd(t, 0))
		w.exchange(t, "node port beside the gateway", e, udp(30080, 8080), func() error {
			return sees(rome.outside, netip.AddrPortFrom(rome.Facts.Nodes[0].IP, 30080), e.Seen, 100)
		})
	})
	t.Run("exposed service", func(t *testing.T) {
		e := w.explain(t, milan.podEnd(t, 1), rome.end("api-server", "10.96.0.1"))
		w.exchange(t, "exposed service", e, udp(443, 8080), func() error {
			return sees(milan.pods[1], netip.AddrPortFrom(e.Address, 443), e.Seen, 100)
		})
		if _, got, err := milan.pods[1].tcp(netip.AddrPortFrom(e.Address, 443), 1<<20); err != nil || got != 1<<20 {
			t.Errorf("TCP: %d bytes came: %v", got, err)
		}
	})
	t.Run("exposed service of a node's own process", func(t *testing.T) {
		e := w.explain(t, milan.podEnd(t, 1), rome.end("on-a-node", "10.96.0.2"))
		view, err := mustTranslation(t, rome, "milan").ToView(milan.pods[1].podIP(t))
		if err != nil {
			t.Fatal(err)
		}
		w.exchange(t, "exposed service on a node", e, udp(443, 8080), func() error {
			return sees(milan.pods[1], netip.AddrPortFrom(e.Address, 443), view, 100)
		})
	})
	t.Run("exposed service that every node has as an address of its own", func(t *testing.T) { // as kube-proxy does with IPVS
		local := netip.AddrPortFrom(addr("10.96.0.4"), 8080)
		rome.nodes[0].address(t, "lo", local.Addr().String()+"/32")
		external := rome.expose(network.Exposed{Kind: network.KindHost, Real: local.Addr(), Object: "demo/ipvs"})
		rome.apply(t)
		view, err := mustTranslation(t, milan, "rome").ToView(external)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := milan.pods[1].tcp(netip.AddrPortFrom(view, 8080), 10); err != nil {
			t.Error(err)
		}
	})
	t.Run("exposed host", func(t *testing.T) {
		e := w.explain(t, milan.podEnd(t, 1), rome.end("printer", printer))
		w.walk(t, "exposed host", milan.pods[1], e)
	})
}

// TestHub: a pod that rome offloaded to milan reaches a pod that rome offloaded to turin.
func TestHub(t *testing.T) {
	w := hub(t)
	for _, far := range []*cluster{w.milan, w.turin} {
		view, err := mustTranslation(t, w.rome, far.ID).ToView(far.pods[1].podIP(t))
		if err != nil {
			t.Fatal(err)
		}
		w.rome.expose(network.Exposed{Kind: network.KindPeer, Real: view, Object: "demo/in-" + far.ID})
	}
	w.ready(t)
	w.milan.pods[1].serve(t, 8080)
	w.turin.pods[1].serve(t, 8080)
	w.walk(t, "hub", w.milan.pods[1], w.explain(t, w.milan.podEnd(t, 1), w.turin.podEnd(t, 1)))
	w.walk(t, "hub back", w.turin.pods[1], w.explain(t, w.turin.podEnd(t, 1), w.milan.podEnd(t, 1)))

	// A node port in one provider has an endpoint in the other provider.
	e := w.explain(t, w.milan.nodeEnd(1), w.turin.podEnd(t, 1))
	for i, n := range w.milan.nodes {
		service(t, n, w.milan.Facts.Pods[0], netip.AddrPortFrom(w.milan.Facts.Nodes[i].IP, 30080), netip.AddrPortFrom(e.Address, 8080))
	}
	for i := range 20 {
		e := w.explain(t, w.milan.nodeEnd(i%2), w.turin.podEnd(t, 1))
		to := netip.AddrPortFrom(w.milan.Facts.Nodes[i%2].IP, 30080)
		if err := sees(w.milan.outside, to, e.Seen, 100); err != nil {
			t.Errorf("node port of milan with a pod of turin: %v", err)
		}
		if _, got, err := w.milan.outside.tcp(to, 1<<16); err != nil || got != 1<<16 {
			t.Errorf("node port of milan with a pod of turin, TCP: %d bytes came: %v", got, err)
		}
	}
}

// TestFullMasquerade: the peer sees only addresses of nodes.
func TestFullMasquerade(t *testing.T) {
	w := together(t)
	w.rome.Facts.Options.FullMasquerade = true
	w.ready(t)
	w.milan.pods[0].serve(t, 8080)
	w.walk(t, "full masquerade", w.rome.pods[1], w.explain(t, w.rome.podEnd(t, 1), w.milan.podEnd(t, 0)))
}
