package network

import (
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/ipam"
)

// TestWalks compares the explanations of typical paths with golden files.
func TestWalks(t *testing.T) {
	outside := End{Cluster: "milan", Name: "printer", Address: addr("192.0.2.7")}
	service := End{Cluster: "rome", Name: "default/kubernetes", Address: addr("10.96.0.1")}
	for _, test := range []struct {
		name          string
		world         func() []Cluster
		from, to      func(all []Cluster) End
		address, seen string
	}{
		{"pod to pod apart", apartList, local(0, 5), remote(1, 7), "10.20.2.7", "10.10.1.5"},
		{"pod to pod", togetherList, local(0, 5), remote(1, 7), "10.71.2.7", "10.72.1.5"},
		{"node to pod", togetherList, func(all []Cluster) End { return nodeEnd(&all[0], 1) }, remote(0, 7), "10.71.1.7", "10.74.0.2"},
		{"full masquerade pod to pod", func() []Cluster {
			all := togetherList()
			all[0].Facts.Options.FullMasquerade = true
			return all
		}, local(0, 5), remote(1, 7), "10.71.2.7", "10.74.0.1"},
		{"pod to host", func() []Cluster {
			all := togetherList()
			all[1].Facts.expose(Exposed{Kind: KindHost, Real: outside.Address, Object: "demo/printer"})
			return all
		}, local(1, 5), func([]Cluster) End { return outside }, "10.73.0.3", "172.16.0.1"},
		{"offloaded pod to the API server", func() []Cluster {
			all := togetherList()
			all[0].Facts.expose(Exposed{Kind: KindHost, Real: service.Address, Object: "liqo/api-server"})
			return all
		}, remote(1, 7), func([]Cluster) End { return service }, "10.74.0.3", "172.16.0.1"},
		{"node through the hub", hubList, func(all []Cluster) End { return nodeEnd(&all[1], 1) }, func(all []Cluster) End { return pod(&all[2], 1, 9) }, "10.74.0.4", "10.72.0.1"},
		{"through the hub", hubList, remote(0, 7), func(all []Cluster) End { return pod(&all[2], 1, 9) }, "10.74.0.4", "10.72.0.3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := test.world()
			e := mustExplain(t, all, test.from(all), test.to(all))
			if e.Address != addr(test.address) || e.Seen != addr(test.seen) {
				t.Errorf("called as %s and sees %s, want %s and %s", e.Address, e.Seen, test.address, test.seen)
			}
			golden(t, "walk "+test.name, e.String())
		})
	}
}

func apartList() []Cluster    { a, b := apart(); return []Cluster{a, b} }
func togetherList() []Cluster { a, b := together(); return []Cluster{a, b} }
func hubList() []Cluster      { a, b, c := hub(); return []Cluster{a, b, c} }

func local(node int, host byte) func([]Cluster) End {
	return func(all []Cluster) End { return pod(&all[0], node, host) }
}
func remote(node int, host byte) func([]Cluster) End {
	return func(all []Cluster) End { return pod(&all[1], node, host) }
}

// cure matches the end of a fault's text: an instruction.
var cure = regexp.MustCompile(`[;:] (add|call|compare|connect|correct|create|delete|give|run|see|start|take|wait) `)

// TestFaults: for each broken path, the text contains the location and the fix.
func TestFaults(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(all []Cluster)
		want   string
	}{
		{"no peering", func(all []Cluster) { all[0].Facts.Peers = nil }, `cluster rome: Configuration milan: there is none for cluster "milan"`},
		{"an incomplete peer", func(all []Cluster) {
			all[1].Facts.Peers = nil
			all[1].Problems = []Problem{{ClusterID: "rome", Object: "Configuration liqo-tenant-rome/rome", Text: "status.remote is empty"}}
		}, "cluster milan: Configuration liqo-tenant-rome/rome: status.remote is empty"},
		{"no gateway pod", func(all []Cluster) { all[0].Facts.Peers[0].Candidates = nil }, "cluster rome: GatewayClient liqo-tenant-milan/milan: no pod of the gateway"},
		{"no gateway pod there", func(all []Cluster) { all[1].Facts.Peers[0].Candidates = nil }, "cluster milan: GatewayServer liqo-tenant-rome/rome: no pod of the gateway"},
		{"not connected", func(all []Cluster) { all[0].Facts.Peers[0].Connection = "Error" }, `cluster rome: Connection liqo-tenant-milan/gw-milan: status.value is "Error"`},
		{"two servers", func(all []Cluster) { all[0].Facts.Peers[0].Role = Server }, "cluster milan: Server of cluster rome: both clusters have a Server"},
		{"a wrong range here", func(all []Cluster) { all[0].Facts.Peers[0].Pods[0].Real = prefix("10.99.0.0/16") }, `cluster rome: Configuration liqo-tenant-milan/milan: translating address 10.200.2.7 reported by cluster "milan"`},
		{"a wrong range there", func(all []Cluster) { all[1].Facts.Peers[0].Pods[0].Real = prefix("10.99.0.0/16") }, "cluster milan: Configuration liqo-tenant-rome/rome: the tunnel drops packets from 10.200.1.5"},
		{"a wrong view there", func(all []Cluster) { all[1].Facts.Peers[0].Pods[0].Real = prefix("10.200.128.0/17") }, "cluster milan: Configuration liqo-tenant-rome/rome: the tunnel drops packets from 10.200.1.5"},
		{"a node without its CIDR", func(all []Cluster) { all[1].Facts.Nodes[1].Pods = nil }, "cluster milan: Pod liqo-tenant-rome/gw-rome-0: the gateway drops"},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := togetherList()
			from, to := pod(&all[0], 0, 5), pod(&all[1], 1, 7)
			test.change(all)
			e := Explain(all, from, to)
			if e.Fault == nil || !strings.HasPrefix(e.Fault.String(), test.want) {
				t.Errorf("fault %v, want %q", e.Fault, test.want)
			}
			if e.Fault != nil && !cure.MatchString(e.Fault.Text) && e.Fault.Text != "status.remote is empty" { // the second text was set by this test
				t.Errorf("no cure in %q", e.Fault)
			}
			if !strings.Contains(e.String(), "broken: ") {
				t.Errorf("the text does not tell:\n%s", e)
			}
		})
	}
	t.Run("a node called", func(t *testing.T) {
		all := togetherList()
		e := Explain(all, pod(&all[0], 0, 5), nodeEnd(&all[1], 1))
		if e.Fault == nil || e.Fault.Object != "Node milan-2" || !strings.HasSuffix(e.Fault.Text, "create an IP object with spec.ip 172.16.0.2") {
			t.Errorf("fault %v", e.Fault)
		}
	})
	t.Run("nothing exposes it", func(t *testing.T) {
		all := togetherList()
		host := End{Cluster: "milan", Address: addr("192.0.2.7")}
		if e := Explain(all, pod(&all[0], 0, 5), host); e.Fault == nil || e.Fault.Object != "IP object with spec.ip 192.0.2.7" {
			t.Errorf("fault %v", e.Fault)
		}
		all[1].Facts.Unexposed = []Exposed{{Real: host.Address, Object: "demo/printer"}}
		if e := Explain(all, pod(&all[0], 0, 5), host); e.Fault == nil || !strings.Contains(e.Fault.String(), "IP demo/printer: label networking.liqo.io/host-unreachable") {
			t.Errorf("fault %v", e.Fault)
		}
	})
}

// randomWorld is a few clusters with random ranges, many of them equal, all peered with the first one.
func randomWorld(r *rand.Rand) []Cluster {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	all := make([]Cluster, 2+r.IntN(2))
	for i := range all {
		pods := []string{pick("10.200.0.0/16", "10.10.0.0/16", "10.20.0.0/16")}
		if r.IntN(3) == 0 {
			pods = append(pods, pick("10.201.0.0/20", "10.11.0.0/18"))
		}
		all[i] = city([]string{"rome", "milan", "turin"}[i], pick("10.70.0.0/16", "10.71.0.0/16"), pods...)
		all[i].Facts.Options.FullMasquerade = r.IntN(5) == 0
	}
	for i := 1; i < len(all); i++ {
		taken := slices.Concat(all[0].Facts.Pods, []netip.Prefix{all[0].Facts.External})
		for _, p := range all[0].Facts.Peers {
			taken = append(taken, p.Views()...)
		}
		server, client := &all[0], &all[i]
		here := free(r, taken)
		far := free(r, slices.Concat(all[i].Facts.Pods, []netip.Prefix{all[i].Facts.External}))
		if r.IntN(2) == 0 {
			peer(server, client, far[0], far[1], here[0], here[1])
		} else {
			peer(client, server, here[0], here[1], far[0], far[1])
		}
	}
	return all
}

// free returns two ranges that do not overlap the taken ones. The range after each of them is free too, since the views of several pod CIDRs are consecutive.
func free(r *rand.Rand, taken []netip.Prefix) (two []string) {
	for len(two) < 2 {
		// The choice is small, so that views often equal real ranges of other clusters.
		second := byte([]int{10, 14, 20, 70, 72, 74, 76, 78, 80, 200, 204, 206}[r.IntN(12)])
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, second, 0, 0}), 15)
		if !overlaps(taken, p) {
			two, taken = append(two, netip.PrefixFrom(p.Addr(), 16).String()), append(taken, p)
		}
	}
	return two
}

// TestWalkIsTranslation: in any world, the hosts translate packets as Translation says. Answers, and ICMP errors about packets on their way, return to the
// sender.
func TestWalkIsTranslation(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range 3000 {
		all := randomWorld(r)
		a, b := 0, 1+r.IntN(len(all)-1)
		if r.IntN(2) == 0 {
			a, b = b, a
		}
		from, to := pod(&all[a], r.IntN(2), byte(3+r.IntN(90))), pod(&all[b], r.IntN(2), byte(3+r.IntN(90)))
		switch r.IntN(4) {
		case 0:
			from = nodeEnd(&all[a], r.IntN(2))
		case 1: // a pod with the same host part of the address as the gateway of the other side
			gw, _ := all[a].candidate(&all[a].Facts.Peers[0])
			if last := gw.IP.As4()[3]; !taken(&all[b], last) {
				to = pod(&all[b], 0, last)
			}
		}
		e := mustExplain(t, all, from, to)
		here, _ := all[a].Facts.Translation(all[b].ID)
		there, _ := all[b].Facts.Translation(all[a].ID)
		wire, err := there.ToWire(to.Address)
		if err != nil {
			t.Fatal(err)
		}
		view, err := here.ToView(wire)
		if err != nil || view != e.Address {
			t.Fatalf("%v: called as %s, translation says %s", err, e.Address, view)
		}
		if all[a].Facts.Options.FullMasquerade {
			node, _ := all[a].Facts.Node(from.Node)
			from.Address = node.IP
		}
		sent, err := here.ToWire(from.Address)
		if err != nil {
			t.Fatal(err)
		}
		if seen, err := there.ToView(sent); err != nil || seen != e.Seen {
			t.Fatalf("%v: sees %s, translation says %s\n%s", err, e.Seen, seen, e)
		}
		// The inverse translation gives the original addresses.
		if real, err := here.ToReal(view); err != nil || real != wire {
			t.Fatalf("%v: %s is %s there, want %s", err, view, real, wire)
		}
		if own, err := there.FromWire(wire); err != nil || own != to.Address {
			t.Fatalf("%v: %s means %s, want %s", err, wire, own, to.Address)
		}
		checkError(t, all, from, e)
	}
}

// taken reports whether a gateway of the cluster has an address that ends in this byte.
func taken(c *Cluster, last byte) bool {
	return slices.ContainsFunc(c.Facts.Peers, func(p Peer) bool { return p.Candidates[0].IP.As4()[3] == last })
}

// checkError sends an ICMP error back, and checks that it quotes the packet as the sender sent it.
func checkError(t *testing.T, all []Cluster, from End, e Explanation) {
	t.Helper()
	w := &walk{clusters: all}
	c := w.cluster(from.Cluster)
	node, _ := c.Facts.Node(from.Node)
	in := podLink
	if from.Address == node.IP {
		in = ""
	}
	sent := Packet{Source: from.Address, Destination: e.Address}
	w.flows = append(w.flows, flow{cluster: c.ID, before: sent})
	end := w.leave(c, node, sent, in, true)
	if end == nil {
		t.Fatal(w.fault)
	}
	home := w.answer(end, end.packet.Error())
	if home == nil {
		t.Fatalf("the error does not come back: %s", w.fault)
	}
	if want := (Quoted{sent.Source, sent.Destination}); *home.packet.Quoted != want || home.packet.Destination != sent.Source || home.packet.Source != sent.Destination {
		t.Fatalf("sent %s, the error comes back as %s", sent, home.packet)
	}
}

// TestPeersReachNothingElse: even if the peer's gateway is hostile, only packets from the peer's own views pass. They reach only pods, exposed addresses, and
// nodes that called the peer.
func TestPeersReachNothingElse(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	passed, passedErrors := 0, 0
	for range 500 {
		all := randomWorld(r)
		c := &all[0]
		f := &c.Facts
		f.expose(Exposed{Kind: KindHost, Real: addr("192.0.2.7"), Object: "demo/printer"})
		f.System = []netip.Addr{pod(c, 0, 6).Address, pod(c, 1, 6).Address}
		interesting := []netip.Addr{addr("192.0.2.7"), addr("192.0.2.8"), addr("172.16.0.1"), addr("172.16.0.9"), addr("10.96.0.1"), addr("127.0.0.1"),
			addr("169.254.18.1"), addr("169.254.18.2"), addr("224.0.0.1"), addr("8.8.8.8"), addr("0.0.0.0"), addr("255.255.255.255"), pod(c, 0, 5).Address, f.System[0], f.System[1]}
		for _, e := range f.Exposed {
			interesting = append(interesting, e.Real, e.External)
		}
		for i := range f.Peers {
			for _, remap := range f.Peers[i].Remaps() {
				interesting = append(interesting, inRange(r, remap.Real), inRange(r, remap.View))
			}
		}
		p := &f.Peers[r.IntN(len(f.Peers))]
		candidate, _ := c.candidate(p)
		translation, _ := f.Translation(p.ClusterID)
		for range 200 {
			pick := func() netip.Addr { return interesting[r.IntN(len(interesting))] }
			packet := Packet{Source: pick(), Destination: pick(), Transport: dataplane.UDP, Port: 80}
			if r.IntN(2) == 0 {
				packet.Transport, packet.Port, packet.Quoted = dataplane.ICMP, 0, &Quoted{Source: pick(), Destination: pick()}
			}
			w := &walk{clusters: all}
			out, ok := w.throughGateway(c, p, candidate, packet, dataplane.TunnelLink)
			if !ok {
				continue
			}
			passed++
			view, err := translation.ToView(packet.Source)
			if err != nil || out.packet.Source != view {
				t.Fatalf("%s came through as %s: %v", packet, out.packet, err)
			}
			own, err := translation.FromWire(packet.Destination)
			if err != nil || out.packet.Destination != own {
				t.Fatalf("%s came through as %s: %v", packet, out.packet, err)
			}
			if q := packet.Quoted; q != nil {
				far, err := translation.ToView(q.Destination)
				if err != nil || out.packet.Quoted.Destination != far {
					t.Fatalf("%s, about a packet to somebody else, came through as %s: %v", packet, out.packet, err)
				}
				own, err := translation.FromWire(q.Source)
				if err != nil || out.packet.Quoted.Source != own {
					t.Fatalf("%s, about a packet of nobody of ours, came through as %s: %v", packet, out.packet, err)
				}
				passedErrors++
			}
			end := w.arriveOrForward(c, out)
			i := slices.IndexFunc(f.Exposed, func(e Exposed) bool { return e.Real == own })
			if end != nil && end.in == "" && (i < 0 || f.Exposed[i].Kind == KindNode) {
				t.Fatalf("%s called a node as %s", packet, out.packet)
			}
			if end != nil && slices.Contains(f.System, own) && i < 0 {
				t.Fatalf("%s called a pod of Liqo as %s", packet, out.packet)
			}
			if !contains(f.Pods, own) && i < 0 {
				t.Fatalf("%s reached %s, which is neither a pod nor exposed", packet, own)
			}
		}
	}
	if passed < 1000 || passedErrors < 50 {
		t.Errorf("only %d packets, %d of them errors, came through: the test does not try what matters", passed, passedErrors)
	}
}

// TestPeersOnlyAnswerLiqosPods: a peer's pod can't call a pod of Liqo, whose metrics need no authentication. It answers the calls of such a pod, and
// calls other pods.
func TestPeersOnlyAnswerLiqosPods(t *testing.T) {
	rome, milan := apart()
	own, other, far := pod(&rome, 1, 6), pod(&rome, 1, 5), pod(&milan, 0, 5)
	rome.Facts.System = []netip.Addr{own.Address}
	all := []Cluster{rome, milan}
	if e := Explain(all, far, own); e.Fault == nil || !strings.Contains(e.Fault.Text, "Liqo's own pods, but not call them") || !cure.MatchString(e.Fault.Text) {
		t.Errorf("a peer calls a pod of Liqo: %s", e)
	}
	mustExplain(t, all, own, far)
	mustExplain(t, all, far, other)
}

func (w *walk) arriveOrForward(c *Cluster, out *passage) *arrival {
	route, _ := out.route()
	for _, n := range c.Facts.Nodes {
		if n.IP == route.Via {
			return w.arrive(c, n, out.packet)
		}
	}
	return nil
}

func inRange(r *rand.Rand, p netip.Prefix) netip.Addr {
	offset := r.Uint32() & (^uint32(0) >> p.Bits())
	addr, _ := ipam.Remap{Real: netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(offset >> 24), byte(offset >> 16), byte(offset >> 8), byte(offset)}), p.Bits()).Masked(), View: p}.ToView(
		netip.AddrFrom4([4]byte{byte(offset >> 24), byte(offset >> 16), byte(offset >> 8), byte(offset)}))
	return addr
}

func TestHostileAddresses(t *testing.T) {
	rome, _ := together()
	translation, _ := rome.Facts.Translation("milan")
	for told, why := range map[string]string{
		"127.0.0.1": "a loopback address", "169.254.169.254": "a link-local address", "224.0.0.251": "a multicast address", "0.0.0.0": "the host itself",
		"255.255.255.255": "a reserved address", "fd00::1": "not an IPv4 address", "::ffff:10.200.1.1": "not an IPv4 address",
		"172.16.0.1": "not in a range of that cluster", "10.96.0.1": "not in a range of that cluster", "8.8.8.8": "not in a range of that cluster",
		"10.71.1.1": "not in a range of that cluster",
	} {
		if view, err := translation.ToView(addr(told)); err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "milan") {
			t.Errorf("%s became %s: %v", told, view, err)
		}
	}
	other, _ := apart()
	translation, _ = other.Facts.Translation("milan")
	if _, err := translation.ToView(addr("10.10.1.5")); err == nil || !strings.Contains(err.Error(), "in one of our own pod CIDRs") {
		t.Errorf("an address of our own: %v", err)
	}
	if _, err := translation.ToWire(addr("172.16.0.9")); err == nil || !strings.Contains(err.Error(), "create one with spec.ip 172.16.0.9") {
		t.Errorf("what nobody exposes: %v", err)
	}
	if _, err := translation.FromWire(addr("10.70.0.200")); err == nil {
		t.Error("an external address that was given to nobody means something")
	}
}
