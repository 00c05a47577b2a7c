package datapath

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/test/dataplane/conformance"
)

// overlayState returns a state with an object of each kind that other programs could change.
func overlayState() dataplane.State {
	member := netip.MustParseAddr("10.200.1.9")
	prefix := netip.MustParsePrefix("10.71.0.0/16")
	return dataplane.State{
		Links: []dataplane.Link{{Name: dataplane.OverlayLink, Kind: dataplane.VXLAN, MTU: 1450, VNI: 18952, Port: 6091, Local: conformance.HostAddress,
			MAC: dataplane.MAC{2, 0x4c, 172, 16, 0, 1}}},
		Neighbours: []dataplane.Neighbour{{Link: dataplane.OverlayLink, IP: member, MAC: dataplane.MAC{2, 0x4c, 10, 200, 1, 9}, Underlay: member}},
		Routes: []dataplane.Route{
			{Table: dataplane.OverlayTable, Destination: prefix, Via: member, Link: dataplane.OverlayLink, OnLink: true, Source: conformance.HostAddress, MTU: 1340},
			{Table: dataplane.OverlayTable, Destination: netip.MustParsePrefix("0.0.0.0/0"), Type: dataplane.Unreachable},
		},
		Rules: []dataplane.Rule{{Priority: 18952, Table: dataplane.OverlayTable}},
		Table: &dataplane.Table{
			Name: dataplane.FilterTable,
			Sets: []dataplane.AddressSet{{Name: "remotes", Intervals: true, Elements: []netip.Prefix{prefix}}},
			Maps: []dataplane.AddressMap{{Name: "real", Elements: map[netip.Addr]netip.Addr{member: conformance.HostAddress}}},
			Chains: []dataplane.Chain{
				{Name: "check", Hook: dataplane.Prerouting, Priority: dataplane.Raw, Rules: []dataplane.FilterRule{
					{Match: dataplane.Match{ICMPError: true, QuotedSource: dataplane.Selector{Prefix: prefix}}, Rewrite: dataplane.Rewrite{Field: dataplane.QuotedSourceField, To: prefix}},
					{Match: dataplane.Match{Source: dataplane.Selector{Set: "remotes"}}, Counter: true, Verdict: dataplane.Drop},
				}},
			},
		},
	}
}

// TestForeignChangesAreUndone: the agent detects every change of Liqo's network configuration by other programs, and reverts it in one pass.
func TestForeignChangesAreUndone(t *testing.T) {
	table := &nftables.Table{Name: dataplane.FilterTable, Family: nftables.TableFamilyIPv4}
	check := &nftables.Chain{Name: "check", Table: table}
	filter := func(do func(c *nftables.Conn) error) func(*kernelHost) error {
		return func(h *kernelHost) error {
			c, err := nftables.New(nftables.WithNetNSFd(int(h.namespace)))
			if err != nil {
				return err
			}
			if err := do(c); err != nil {
				return err
			}
			return c.Flush()
		}
	}
	rule := func(exprs ...expr.Any) func(*kernelHost) error {
		return filter(func(c *nftables.Conn) error {
			c.InsertRule(&nftables.Rule{Table: table, Chain: check, Exprs: exprs})
			return nil
		})
	}
	route := func(change func(*netlink.Route), do func(*netlink.Handle, *netlink.Route) error) func(*kernelHost) error {
		return func(h *kernelHost) error {
			link, err := h.handle.LinkByName(dataplane.OverlayLink)
			if err != nil {
				return err
			}
			r := &netlink.Route{Table: dataplane.OverlayTable, Dst: &net.IPNet{IP: net.IPv4(10, 71, 0, 0).To4(), Mask: net.CIDRMask(16, 32)}, Gw: net.IPv4(10, 200, 1, 9).To4(),
				LinkIndex: link.Attrs().Index, Flags: int(netlink.FLAG_ONLINK), Src: conformance.HostAddress.AsSlice(), MTU: 1340, Protocol: dataplane.Protocol}
			change(r)
			return do(h.handle, r)
		}
	}
	add, replace, appended := (*netlink.Handle).RouteAdd, (*netlink.Handle).RouteReplace, (*netlink.Handle).RouteAppend
	policy := func(change func(*netlink.Rule)) func(*kernelHost) error {
		return func(h *kernelHost) error {
			r := netlink.NewRule()
			r.Priority, r.Table, r.Protocol, r.Family = 18952, dataplane.OverlayTable, dataplane.Protocol, netlink.FAMILY_V4
			change(r)
			return h.handle.RuleAdd(r)
		}
	}
	relink := func(l netlink.Link) func(*kernelHost) error {
		return func(h *kernelHost) error {
			old, err := h.handle.LinkByName(dataplane.OverlayLink)
			if err != nil {
				return err
			}
			if err := h.handle.LinkDel(old); err != nil {
				return err
			}
			return h.handle.LinkAdd(l)
		}
	}
	named := func(name string) netlink.LinkAttrs {
		a := netlink.NewLinkAttrs()
		a.Name, a.MTU, a.HardwareAddr = name, 1450, net.HardwareAddr{2, 0x4c, 172, 16, 0, 1}
		return a
	}
	for name, disturb := range map[string]func(*kernelHost) error{
		"a rule that logs":                 rule(&expr.Log{Key: 1 << unix.NFTA_LOG_PREFIX, Data: []byte("x")}),
		"a rule that accepts all":          rule(&expr.Verdict{Kind: expr.VerdictAccept}),
		"a rule with an unknown condition": rule(&expr.Fib{Register: 1, ResultOIF: true, FlagDADDR: true}, &expr.Verdict{Kind: expr.VerdictDrop}),
		"a rule that is removed": filter(func(c *nftables.Conn) error {
			rules, err := c.GetRules(table, check)
			if err != nil {
				return err
			}
			return c.DelRule(rules[1])
		}),
		"another order of rules": filter(func(c *nftables.Conn) error {
			rules, err := c.GetRules(table, check)
			if err != nil {
				return err
			}
			c.InsertRule(&nftables.Rule{Table: table, Chain: check, Exprs: rules[1].Exprs})
			return c.DelRule(rules[1])
		}),
		"a chain": filter(func(c *nftables.Conn) error {
			c.AddChain(&nftables.Chain{Name: "more", Table: table})
			return nil
		}),
		"another policy": filter(func(c *nftables.Conn) error {
			drop := nftables.ChainPolicyDrop
			c.AddChain(&nftables.Chain{Name: "check", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRaw, Policy: &drop})
			return nil
		}),
		"a set of another type": filter(func(c *nftables.Conn) error {
			return c.AddSet(&nftables.Set{Table: table, Name: "ports", KeyType: nftables.TypeInetService}, nil)
		}),
		"an interval that is no prefix": filter(func(c *nftables.Conn) error {
			return c.SetAddElements(&nftables.Set{Table: table, Name: "remotes"}, []nftables.SetElement{{Key: []byte{192, 0, 2, 1}}, {Key: []byte{192, 0, 2, 9}, IntervalEnd: true}})
		}),
		"an element": filter(func(c *nftables.Conn) error {
			return c.SetAddElements(&nftables.Set{Table: table, Name: "real"}, []nftables.SetElement{{Key: []byte{192, 0, 2, 1}, Val: []byte{192, 0, 2, 2}}})
		}),
		"no elements": filter(func(c *nftables.Conn) error {
			c.FlushSet(&nftables.Set{Table: table, Name: "remotes"})
			return nil
		}),
		"another set of ICMP errors": filter(func(c *nftables.Conn) error {
			return c.SetAddElements(&nftables.Set{Table: table, Name: dataplane.ReservedSet}, []nftables.SetElement{{Key: []byte{8}}})
		}),
		"a counter": filter(func(c *nftables.Conn) error {
			c.AddObj(&nftables.CounterObj{Table: table, Name: "more"})
			return nil
		}),
		"no table": filter(func(c *nftables.Conn) error {
			c.DelTable(table)
			return nil
		}),
		"a route of somebody else": route(func(r *netlink.Route) { r.Protocol = unix.RTPROT_STATIC }, replace),
		"a route with a metric":    route(func(r *netlink.Route) { r.Priority = 7 }, add),
		"a route with more":        route(func(r *netlink.Route) { r.AdvMSS = 1000 }, replace),
		"a second route":           route(func(r *netlink.Route) { r.Gw = net.IPv4(10, 200, 1, 10).To4() }, appended),
		"a route for a service":    route(func(r *netlink.Route) { r.Tos = 8 }, add),
		"a route to nowhere": route(func(r *netlink.Route) {
			*r = netlink.Route{Table: r.Table, Dst: r.Dst, Type: unix.RTN_BLACKHOLE, Protocol: dataplane.Protocol}
		}, replace),
		"a route of two ways": route(func(r *netlink.Route) {
			hop := netlink.NexthopInfo{LinkIndex: r.LinkIndex, Gw: r.Gw, Flags: r.Flags}
			other := hop
			other.Gw = net.IPv4(10, 200, 1, 10).To4()
			*r = netlink.Route{Table: r.Table, Dst: r.Dst, MultiPath: []*netlink.NexthopInfo{&hop, &other}, Protocol: dataplane.Protocol}
		}, replace),
		"a rule for a mark":      policy(func(r *netlink.Rule) { r.Mark = 7 }),
		"a rule for a source":    policy(func(r *netlink.Rule) { r.Src = &net.IPNet{IP: net.IPv4(10, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)} }),
		"a rule for a link":      policy(func(r *netlink.Rule) { r.IifName = "lo" }),
		"a rule of another kind": policy(func(r *netlink.Rule) { r.Priority, r.Invert, r.IifName = 5, true, "lo" }),
		"a link that learns":     relink(&netlink.Vxlan{LinkAttrs: named(dataplane.OverlayLink), VxlanId: 18952, Port: 6091, SrcAddr: conformance.HostAddress.AsSlice(), Learning: true}),
		"a link to a group": relink(&netlink.Vxlan{LinkAttrs: named(dataplane.OverlayLink), VxlanId: 18952, Port: 6091, SrcAddr: conformance.HostAddress.AsSlice(),
			Group: net.IPv4(192, 0, 2, 9).To4()}),
		"a link of another kind": relink(&netlink.Veth{LinkAttrs: named(dataplane.OverlayLink), PeerName: "peer"}),
	} {
		t.Run(name, func(t *testing.T) {
			host := newKernelHost(t)
			t.Cleanup(host.Close)
			want, ctx := overlayState(), context.Background()
			pass := func() int {
				t.Helper()
				have, err := host.Read(ctx, host.Own)
				if err != nil {
					t.Fatal(err)
				}
				changes := dataplane.Diff(have, want, host.Own)
				if err := host.Apply(ctx, changes); err != nil {
					t.Fatalf("%v, of %v", err, changes)
				}
				return len(changes)
			}
			pass()
			if pass() > 0 {
				t.Fatal("not silent where nothing differs")
			}
			if err := disturb(kernelHosts[host.Own.Tunnel]); err != nil {
				t.Fatal(err)
			}
			if pass() == 0 {
				t.Error("it was not seen")
			}
			if pass() > 0 {
				t.Error("it was not undone in one pass")
			}
		})
	}
}

// TestTunnelProcessDied: the agent applies everything that does not need the tunnel, and waits for the tunnel process to start again.
func TestTunnelProcessDied(t *testing.T) {
	host := newKernelHost(t)
	t.Cleanup(host.Close)
	h, ctx := kernelHosts[host.Own.Tunnel], context.Background()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = host.Own.Tunnel
	if err := h.handle.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "peer"}); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join("/var/run/wireguard", host.Own.Tunnel+".sock")
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(socket) })

	want := overlayState()
	want.Links = append(want.Links, dataplane.Link{Name: host.Own.Tunnel, Kind: dataplane.Tunnel, MTU: 1340})
	want.WireGuard = []dataplane.WireGuard{{Link: host.Own.Tunnel, PrivateKey: dataplane.PrivateKey{1}}}
	for range 2 {
		have, err := host.Read(ctx, host.Own)
		if err != nil {
			t.Fatal(err)
		}
		if missing := dataplane.Missing(have, want); len(missing) != 1 {
			t.Errorf("missing %q", missing)
		}
		if err := host.Apply(ctx, dataplane.Diff(have, want, host.Own)); err != nil {
			t.Fatal(err)
		}
	}
	peer := dataplane.Change{Operation: dataplane.Delete, Peer: &dataplane.DevicePeer{Link: host.Own.Tunnel}}
	if err := host.Apply(ctx, []dataplane.Change{peer}); err != nil {
		t.Error(err)
	}
}
