package agent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestDefaultRouteLimitsTheMTU: the link of a pod may have a larger MTU than its network. The route then has the right one.
func TestDefaultRouteLimitsTheMTU(t *testing.T) {
	everywhere := &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}
	somewhere := &net.IPNet{IP: net.IPv4(192, 0, 2, 0), Mask: net.CIDRMask(24, 32)}
	for name, c := range map[string]struct {
		routes []netlink.Route
		want   int
	}{
		"no routes":           {nil, 1500},
		"routes without":      {[]netlink.Route{{Dst: everywhere}}, 1500},
		"default route":       {[]netlink.Route{{Dst: everywhere, MTU: 1450}}, 1450},
		"default route, bare": {[]netlink.Route{{MTU: 1450}}, 1450},
		"more than the link":  {[]netlink.Route{{Dst: everywhere, MTU: 9000}}, 1500},
		"another route":       {[]netlink.Route{{Dst: somewhere, MTU: 1280}}, 1500},
	} {
		if got := routedMTU(1500, c.routes); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

// TestUnderlayIsTheLinkOfTheAddress: the MTU is that of the link with the address, and of its default route. The addresses are those of all links but the excluded
// ones, each once.
func TestUnderlayIsTheLinkOfTheAddress(t *testing.T) {
	link := func(index, mtu int, name string) netlink.Link {
		return &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: index, MTU: mtu, Name: name}}
	}
	address := func(index int, text string) netlink.Addr {
		return netlink.Addr{LinkIndex: index, IPNet: &net.IPNet{IP: netip.MustParseAddr(text).AsSlice(), Mask: net.CIDRMask(24, 32)}}
	}
	links := []netlink.Link{link(1, 65536, "lo"), link(2, 9000, "eth0"), link(3, 1500, "eth1"), link(4, 1400, "ours")}
	found := []netlink.Addr{
		address(3, "192.0.2.3"), address(1, "127.0.0.1"), address(2, "192.0.2.2"), address(3, "192.0.2.2"), address(4, "192.0.2.4"), address(9, "192.0.2.9"),
	}
	routesOf := func(l netlink.Link) ([]netlink.Route, error) {
		switch l.Attrs().Name {
		case "eth0":
			return []netlink.Route{{MTU: 1450}}, nil
		case "lo":
			return nil, errors.New("no routes")
		}
		return []netlink.Route{{}}, nil
	}
	want := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")}
	for ip, mtu := range map[string]int{"192.0.2.3": 1500, "192.0.2.4": 0, "192.0.2.9": 0, "127.0.0.1": 0} {
		got, addresses, err := underlay(netip.MustParseAddr(ip), links, found, routesOf, "ours")
		if got != mtu || (err == nil) != (mtu > 0) || err == nil && !slices.Equal(addresses, want) {
			t.Errorf("%s: MTU %d, addresses %v, %v, want %d, %v", ip, got, addresses, err, mtu, want)
		}
	}
	if got, _, err := underlay(netip.MustParseAddr("192.0.2.2"), links, found[2:3], routesOf); got != 1450 || err != nil {
		t.Errorf("a link whose default route has a lower MTU: %d, %v, want 1450", got, err)
	}
}

// TestDependencies: the networks of links and the resolvers are among the dependencies of a host. The loopback counts as any other link.
func TestDependencies(t *testing.T) {
	found, err := Dependencies("search example.com\nnameserver 10.0.0.2\nnameserver fd00::2\n#nameserver 10.0.0.3\nnameserver\n")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, d := range found {
		names[d.Prefix.String()] = d.Name
	}
	for prefix, want := range map[string]string{"10.0.0.2/32": "a resolver", "10.0.0.3/32": "", "127.0.0.0/8": "the network of link lo"} {
		if got := names[prefix]; got != want {
			t.Errorf("%s is %q, want %q", prefix, got, want)
		}
	}
}

// TestDestinationsOfRoutes: a node needs the networks that static routes lead to, through a router or a VPN, however wide, and in whichever routing table. Default
// routes, also as two halves, and routes of our own link are left out. Next hops are needed too.
func TestDestinationsOfRoutes(t *testing.T) {
	to := func(text string, r netlink.Route) netlink.Route {
		prefix := netip.MustParsePrefix(text)
		r.Dst = &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
		if r.Type == 0 {
			r.Type = unix.RTN_UNICAST
		}
		return r
	}
	const eth, vpn, ours = 2, 3, 4
	router, second, gateway := net.IPv4(192, 0, 2, 1), net.IPv4(192, 0, 2, 2), net.IPv4(192, 0, 2, 3)
	routes := []netlink.Route{
		{LinkIndex: eth, Gw: router, Type: unix.RTN_UNICAST},
		to("0.0.0.0/0", netlink.Route{LinkIndex: eth, Gw: router}),
		to("0.0.0.0/1", netlink.Route{LinkIndex: vpn}),
		to("10.0.0.0/8", netlink.Route{LinkIndex: eth, Gw: router}),
		to("10.20.0.0/16", netlink.Route{LinkIndex: eth, Gw: router}),
		to("10.30.0.9/32", netlink.Route{LinkIndex: vpn}),
		to("10.40.0.0/16", netlink.Route{MultiPath: []*netlink.NexthopInfo{{LinkIndex: eth, Gw: second}}}),
		to("10.45.0.0/16", netlink.Route{LinkIndex: vpn, Table: 52}),
		to("10.50.0.0/16", netlink.Route{Type: unix.RTN_BLACKHOLE}),
		to("10.60.0.0/16", netlink.Route{LinkIndex: ours, Gw: gateway}),
		to("172.16.0.0/12", netlink.Route{LinkIndex: eth, Gw: router, Table: 1000}),
		to("fd00::/64", netlink.Route{LinkIndex: eth}),
	}
	hops, destinations := routed(routes, func(link int) bool { return link == ours })
	link := netip.MustParsePrefix("10.20.0.0/16")
	var got []string
	for _, d := range ordered(map[netip.Prefix]string{link: "the network of link eth0"}, hops, destinations) {
		got = append(got, fmt.Sprint(d.Prefix, " ", d.Name, " ", d.Routed))
	}
	want := []string{
		"10.0.0.0/8 the destination of a route true", "10.20.0.0/16 the network of link eth0 false", "10.30.0.9/32 the destination of a route true",
		"10.40.0.0/16 the destination of a route true", "10.45.0.0/16 the destination of a route true", "172.16.0.0/12 the destination of a route true",
		"192.0.2.1/32 a next hop false", "192.0.2.2/32 a next hop false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("networks and next hops of routes (-want +got):\n%s", diff)
	}
}
