package multicast

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/ipv4"

	"liqo.io/liqo/internal/address"
	"liqo.io/liqo/internal/discovery"
)

// TestLocalNetworks: only networks with multicast in which other clusters can be count, and none of this cluster's own ranges.
func TestLocalNetworks(t *testing.T) {
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	for i := range interfaces {
		for _, network := range networksOf(&interfaces[i], nil) {
			if !network.Addr().Is4() || address.Check(network.Addr(), nil) != nil || interfaces[i].Flags&net.FlagLoopback != 0 {
				t.Errorf("%s: %s", interfaces[i].Name, network)
			}
		}
		if got := networksOf(&interfaces[i], everything); len(got) > 0 {
			t.Errorf("%s: %v is in a range of this cluster", interfaces[i].Name, got)
		}
	}
	if _, err := Join(everything); err == nil {
		t.Error("there is no network to join")
	}
}

// TestForgedPacketsAreDropped: a link receives packets of its own network only, and responses from the port of multicast DNS only. At that port, a
// response counts only if it was sent to the group: it may have come from another network otherwise.
func TestForgedPacketsAreDropped(t *testing.T) {
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatalf("finding the loopback interface of Linux, where this is tested: %v", err)
	}
	responder, err := net.ListenMulticastUDP("udp4", loopback, &net.UDPAddr{IP: group, Port: port})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = responder.Close() }()
	question := []discovery.Question{{Name: discovery.ServiceName(discovery.LocalDomain), Type: discovery.PTR}}
	for shared, want := range map[bool][]uint16{false: {3, 4}, true: {4}} {
		conn := listenAt(t, "127.0.0.1")
		l, err := newLink(conn, loopback, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, shared)
		if err != nil {
			t.Fatal(err)
		}
		for _, packet := range []struct {
			from *net.UDPConn
			m    discovery.Message
		}{
			{listenAt(t, "127.0.0.2"), discovery.Message{ID: 1}},                 // from another network
			{listenAt(t, "127.0.0.1"), discovery.Message{ID: 2, Response: true}}, // from the port of a program
			{responder, discovery.Message{ID: 3, Response: true}},                // to the address of this host
			{listenAt(t, "127.0.0.1"), discovery.Message{ID: 4}},
		} {
			packet.m.Questions = question
			data, err := packet.m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := packet.from.WriteTo(data, conn.LocalAddr()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		var got []uint16
		(&Group{links: []*link{l}}).Run(ctx, func(p *Packet) {
			got = append(got, p.Message.ID)
			if p.Legacy() != (p.Message.ID == 4) {
				t.Errorf("%+v from %s: legacy is %t", p.Message, p.From, p.Legacy())
			}
			if p.Message.ID == 4 { // the last one
				cancel()
			}
		})
		cancel()
		if !slices.Equal(got, want) {
			t.Errorf("shared %t: messages %v, want %v", shared, got, want)
		}
		sender := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
		if !l.trusts(sender, &ipv4.ControlMessage{Dst: group.To4(), IfIndex: loopback.Index}) {
			t.Errorf("shared %t: a response to the group is dropped", shared)
		}
	}
}

// listenAt opens a socket at an address until the test ends.
func listenAt(t *testing.T, address string) *net.UDPConn {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(address)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
