package datapath

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Numbers of the Amazon VPC CNI: the table of a further network interface, the mark of packets to other networks, and the priorities of its rules.
const (
	interfaceTable         = 2
	awsMark                = 0x80
	toPod, marked, fromPod = 512, 1024, 1536
	vpcRouter              = "172.16.0.254"
	nodesOfVPC             = "172.16.0.0/24"
)

// routeBySource makes the nodes of a cluster route as the Amazon VPC CNI does. Packets to a pod of the node use the main table. Packets of pods to other
// networks are marked, and use the main table, too. Other packets of a pod use the table of the network interface that its address belongs to.
func (c *cluster) routeBySource(t *testing.T) {
	t.Helper()
	for i, n := range c.nodes {
		pods := []*host{c.pods[i]}
		for _, p := range c.Facts.Peers {
			if p.Candidates[0].Node == n.name {
				pods = append(pods, c.gateways[p.ClusterID])
			}
		}
		other := c.Facts.Nodes[1-i]
		eth := n.link(t, "eth0").Attrs().Index
		everywhere, router := ipNet(prefix("0.0.0.0/0")), addr(vpcRouter).AsSlice()
		for _, route := range []*netlink.Route{
			{LinkIndex: eth, Dst: everywhere, Gw: router, Flags: int(netlink.FLAG_ONLINK)},
			{LinkIndex: eth, Dst: everywhere, Gw: router, Flags: int(netlink.FLAG_ONLINK), Table: interfaceTable},
			{LinkIndex: eth, Dst: ipNet(prefix(nodesOfVPC)), Scope: netlink.SCOPE_LINK, Table: interfaceTable},
			{LinkIndex: eth, Dst: ipNet(other.Pods[0]), Gw: other.IP.AsSlice(), Table: interfaceTable},
		} {
			if err := n.kernel.RouteAdd(route); err != nil {
				t.Fatalf("%s: adding route %v: %v", n.name, route, err)
			}
		}
		add := func(change func(*netlink.Rule)) {
			r := netlink.NewRule()
			r.Family = netlink.FAMILY_V4
			change(r)
			if err := n.kernel.RuleAdd(r); err != nil {
				t.Fatalf("%s: adding rule %v: %v", n.name, r, err)
			}
		}
		mask := uint32(awsMark)
		add(func(r *netlink.Rule) {
			r.Priority, r.Mark, r.Mask, r.Table = marked, awsMark, &mask, unix.RT_TABLE_MAIN
		})
		for _, p := range pods {
			ip := netip.PrefixFrom(p.podIP(t), 32)
			add(func(r *netlink.Rule) { r.Priority, r.Dst, r.Table = toPod, ipNet(ip), unix.RT_TABLE_MAIN })
			add(func(r *netlink.Rule) { r.Priority, r.Src, r.Table = fromPod, ipNet(ip), interfaceTable })
		}
		c.markForeign(t, n)
	}
}

// markForeign marks the packets of pods to addresses that are neither pods nor nodes.
func (c *cluster) markForeign(t *testing.T, n *host) {
	t.Helper()
	k := tables(t, n)
	table := k.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "aws"})
	// After the destinations of Services were translated.
	after := *nftables.ChainPriorityNATDest + 1
	chain := k.AddChain(&nftables.Chain{Name: "mark", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: &after})
	pods := c.Facts.Pods[0]
	k.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: slices.Concat(
		in(12, pods, expr.CmpOpEq), in(16, pods, expr.CmpOpNeq), in(16, prefix(nodesOfVPC), expr.CmpOpNeq), []expr.Any{
			&expr.Immediate{Register: 1, Data: binaryutil.NativeEndian.PutUint32(awsMark)}, &expr.Meta{Key: expr.MetaKeyMARK, Register: 1, SourceRegister: true}})})
	if err := k.Flush(); err != nil {
		t.Fatalf("%s: %v", n.name, err)
	}
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}

// TestRulesBeforeThoseOfTheCNI: a CNI that routes packets of pods by rules of its own, as that of EKS, takes the packets to peers, unless the rules of Liqo come
// first. liqoctl install sets their priority there.
func TestRulesBeforeThoseOfTheCNI(t *testing.T) {
	w := apart(t)
	w.rome.routeBySource(t)
	w.ready(t)
	for _, p := range w.milan.pods {
		p.serve(t, 8080)
	}
	end := func(i int) (netip.AddrPort, netip.Addr) {
		e := w.explain(t, w.rome.podEnd(t, i), w.milan.podEnd(t, i))
		return netip.AddrPortFrom(e.Address, 8080), e.Seen
	}
	to, _ := end(0)
	if seen, _, err := w.rome.pods[0].udp(to, 100, silence); err == nil {
		t.Errorf("with the rules of the CNI first, the peer answers to %s: the test does not route as such a CNI", seen)
	}
	w.rome.Facts.Options.RulePriority = marked
	w.rome.apply(t)
	w.rome.pods[0].serve(t, 8080)
	for i := range w.rome.pods {
		to, seen := end(i)
		if err := sees(w.rome.pods[i], to, seen, 100); err != nil {
			t.Errorf("pod %d of rome calls pod %d of milan: %v", i, i, err)
		}
		if _, got, err := w.rome.pods[i].tcp(to, 1<<16); err != nil || got != 1<<16 {
			t.Errorf("pod %d of rome calls pod %d of milan, TCP: %d bytes came: %v", i, i, got, err)
		}
	}
	e := w.explain(t, w.milan.podEnd(t, 1), w.rome.podEnd(t, 0))
	if err := sees(w.milan.pods[1], netip.AddrPortFrom(e.Address, 8080), e.Seen, 100); err != nil {
		t.Errorf("milan calls rome: %v", err)
	}
}
