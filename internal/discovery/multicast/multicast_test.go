package multicast

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

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
			if !network.Addr().Is4() || discovery.CheckAddress(network.Addr(), nil) != nil || interfaces[i].Flags&net.FlagLoopback != 0 {
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

// TestForgedPacketsAreDropped: a link hands on what comes from its own network, and responses from the port of multicast DNS only.
func TestForgedPacketsAreDropped(t *testing.T) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip("this system calls its loopback interface otherwise") // Linux is where this is tested
	}
	l, err := newLink(conn, loopback, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	g := &Group{links: []*link{l}}
	got := make(chan *Packet, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(ctx, func(p *Packet) { got <- p })
	}()
	send := func(from string, m *discovery.Message) {
		t.Helper()
		local, err := net.ResolveUDPAddr("udp4", from)
		if err != nil {
			t.Fatal(err)
		}
		sender, err := net.DialUDP("udp4", local, conn.LocalAddr().(*net.UDPAddr))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sender.Close() }()
		data, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sender.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	question := []discovery.Question{{Name: discovery.ServiceName(discovery.LocalDomain), Type: discovery.PTR}}
	send("127.0.0.2:0", &discovery.Message{ID: 1, Questions: question})                 // from elsewhere
	send("127.0.0.1:0", &discovery.Message{ID: 2, Response: true, Questions: question}) // a response of a program
	send("127.0.0.1:0", &discovery.Message{ID: 3, Questions: question})
	p := <-got
	if p.Message.ID != 3 || !p.Legacy() {
		t.Errorf("%+v from %s", p.Message, p.From)
	}
	cancel()
	<-done
	g.Close()
	if len(got) > 0 {
		t.Errorf("also %+v", (<-got).Message)
	}
}
