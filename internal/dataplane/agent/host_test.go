package agent

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestDefaultRouteLimitsTheMTU: a pod's link may promise more than what its network carries; the route then says so.
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
