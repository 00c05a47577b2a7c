package agent

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"liqo.io/liqo/internal/dataplane"
)

// TestRepeatedChangeIsLoggedOnce: dialing an unreachable peer for an hour is logged once, and once more when it starts again after a pause.
func TestRepeatedChangeIsLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	j := journal{log: slog.New(slog.NewTextHandler(&out, nil))}
	now := time.Unix(0, 0)
	dial := func(port uint16) {
		peer := dataplane.Peer{PublicKey: dataplane.PublicKey{1}, Endpoint: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port)}
		j.record([]dataplane.Change{{Operation: dataplane.Delete, Peer: &dataplane.DevicePeer{Link: dataplane.TunnelLink, Peer: peer}}}, now)
		j.record([]dataplane.Change{
			{Device: &dataplane.Device{Link: dataplane.TunnelLink, ListenPort: port}}, {Peer: &dataplane.DevicePeer{Link: dataplane.TunnelLink, Peer: peer}},
		}, now)
	}
	lines := func() int { return strings.Count(out.String(), "\n") }
	for i := range 1800 {
		dial(uint16(40000 + i))
		now = now.Add(2 * time.Second)
	}
	if lines() != 2 {
		t.Errorf("told %d times:\n%s", lines(), out.String())
	}
	route := dataplane.Change{Route: &dataplane.Route{Table: dataplane.OverlayTable, Destination: netip.MustParsePrefix("10.1.0.0/16"), Link: dataplane.OverlayLink}}
	j.record([]dataplane.Change{route}, now)
	if lines() != 3 || !strings.Contains(out.String(), "10.1.0.0/16") {
		t.Errorf("something else is not told of:\n%s", out.String())
	}
	now = now.Add(repeated)
	if dial(1); lines() != 5 {
		t.Errorf("a new beginning is not told of:\n%s", out.String())
	}
	var many []dataplane.Change
	for i := range 100 {
		r := *route.Route
		r.Destination = netip.MustParsePrefix(fmt.Sprintf("10.2.%d.0/24", i))
		many = append(many, dataplane.Change{Route: &r})
	}
	if j.record(many, now); lines() != 6 || !strings.Contains(out.String(), "count=100") || strings.Contains(out.String(), "10.2.99.0/24") {
		t.Errorf("many at once:\n%s", out.String())
	}
	if now = now.Add(repeated); len(j.seen) > 0 {
		if j.record(nil, now); len(j.seen) != 0 {
			t.Errorf("%d changes are remembered for ever", len(j.seen))
		}
	}
}
