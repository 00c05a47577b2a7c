package datapath

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/network"
)

// TestConnectionsSurviveTheirGateway: gateways keep no state of connections, so connections survive a takeover by another replica.
func TestConnectionsSurviveTheirGateway(t *testing.T) {
	w := together(t)
	rome := w.rome
	second := rome.pod(t, "rome-gateway-to-milan-1", 1, 110)
	second.must(t, func() error { return gateway.Prepare(gateway.Sysctls) })
	w.internet.plug(t, second, "wan0", netip.PrefixFrom(addr("192.0.2.99"), 24))
	tunnel := newTunnel(t, second)
	tunnel.key = rome.tunnels["milan"].key
	peer := &rome.Facts.Peers[0]
	peer.Candidates = append(peer.Candidates, network.Candidate{Pod: second.name, IP: second.podIP(t), Node: rome.nodes[1].name})
	w.ready(t)
	w.milan.pods[1].serve(t, 8080)
	e := w.explain(t, rome.podEnd(t, 1), w.milan.podEnd(t, 1))
	takeOver := func() {
		if err := rome.gateways["milan"].kernel.LinkDel(rome.gateways["milan"].link(t, "eth0")); err != nil {
			t.Fatal(err)
		}
		self := network.Self{ClusterID: "milan", IP: second.podIP(t), Node: rome.nodes[1].name, MTU: 1500}
		active := map[string]netip.Addr{"milan": self.IP}
		apply(t, second, tunnel, network.CompileGateway(&rome.Facts, self, network.Tunnel{PrivateKey: tunnel.key, Peers: rome.tunnels["milan"].peers}, active))
		for _, n := range rome.nodes {
			apply(t, n, nil, network.CompileNode(&rome.Facts, network.Host{Name: n.name, MTU: 1500}, active))
		}
	}
	const chunks, size = 400, 1000
	rome.pods[1].must(t, func() error {
		c, err := net.DialTimeout("tcp4", netip.AddrPortFrom(e.Address, 8080).String(), patience)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		for i := range chunks {
			if i == chunks/2 {
				takeOver()
			}
			if _, err := c.Write(make([]byte, size)); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			return err
		}
		answer, err := io.ReadAll(c)
		if err != nil {
			return err
		}
		seen, got, err := answered(answer)
		if err == nil && (seen != e.Seen || got != chunks*size) {
			err = fmt.Errorf("%d bytes came from %s, want %d from %s", got, seen, chunks*size, e.Seen)
		}
		return err
	})
}
