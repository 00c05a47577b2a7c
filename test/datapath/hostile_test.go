package datapath

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/network"
)

// TestPeersDoNotTakeTheTrafficOfHosts: a peer reports a public range and the network of a link of a node, which no administrator configured. The
// traffic of the node and of its pods to these ranges keeps its route. Both reach the peer's other range.
func TestPeersDoNotTakeTheTrafficOfHosts(t *testing.T) {
	w := apart(t)
	n := w.rome.nodes[1]
	lan := newLAN(t, "office")
	lan.plug(t, n, "eth1", netip.MustParsePrefix("10.50.1.2/24"))
	router := newHost(t, "router")
	lan.plug(t, router, "eth0", netip.MustParsePrefix("10.50.1.1/24"))
	router.address(t, "lo", "198.51.100.9/32")
	router.route(t, "10.10.0.0/16", "eth0", "10.50.1.2")
	n.route(t, "0.0.0.0/0", "eth1", "10.50.1.1")
	router.serve(t, 8080)
	w.milan.pods[0].serve(t, 8080)

	p := &w.rome.Facts.Peers[0]
	p.Negotiated = true
	for _, hostile := range []string{"198.51.100.0/24", "10.50.1.0/28"} {
		p.Pods = append(p.Pods, ipam.Remap{Real: prefix(hostile), View: prefix(hostile)})
	}
	w.ready(t)
	active := network.FirstChoice(&w.rome.Facts)
	self := network.Host{Name: n.name, MTU: w.rome.mtu, Addresses: []netip.Addr{addr("172.16.0.2"), addr("10.50.1.2")},
		Dependencies: []network.Dependency{{Prefix: prefix("10.50.1.0/24"), Name: "the network of link eth1"}}}
	if problems := network.Refusals(&w.rome.Facts, self); len(problems) != 2 {
		t.Errorf("refused: %v", problems)
	}
	apply(t, n, nil, network.CompileNode(&w.rome.Facts, self, active))

	overlay := n.link(t, dataplane.OverlayLink).Attrs().Index
	for _, to := range []string{"198.51.100.9", "10.50.1.1", "10.50.1.7", "8.8.8.8"} {
		for _, from := range []net.IP{nil, net.ParseIP("172.16.0.2"), net.ParseIP("10.50.1.2")} {
			routes, err := n.kernel.RouteGetWithOptions(net.ParseIP(to), &netlink.RouteGetOptions{SrcAddr: from})
			if err != nil || len(routes) != 1 || routes[0].LinkIndex == overlay {
				t.Errorf("from %s to %s: %v, %v", from, to, routes, err)
			}
		}
	}
	for _, from := range []*host{n, w.rome.pods[1]} {
		if _, _, err := from.tcp(netip.MustParseAddrPort("198.51.100.9:8080"), 10); err != nil {
			t.Errorf("%s does not reach the host outside any more: %v", from.name, err)
		}
		if _, _, err := from.tcp(netip.AddrPortFrom(w.milan.pods[0].podIP(t), 8080), 10); err != nil {
			t.Errorf("%s does not reach the peer's pod: %v", from.name, err)
		}
	}
}
