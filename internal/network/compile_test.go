package network

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/test/dataplane/conformance"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a text with the file of that name.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got), written anew with -update:\n%s", file, diff)
	}
}

// compiled is the plan of every host of a cluster.
func compiled(c *Cluster) string {
	var b strings.Builder
	for _, n := range c.Facts.Nodes {
		host := Host{Name: n.Name, MTU: 1500, Addresses: []netip.Addr{n.IP, n.Pods[0].Addr().Next(), addr("127.0.0.1")}}
		fmt.Fprintf(&b, "== node %s of %s\n%s", n.Name, c.ID, dataplane.Text(CompileNode(&c.Facts, host, c.active())))
	}
	for _, p := range c.Facts.Peers {
		for _, candidate := range p.Candidates {
			self := Self{ClusterID: p.ClusterID, IP: candidate.IP, Node: candidate.Node, MTU: 1450}
			tunnel := Tunnel{PrivateKey: dataplane.PrivateKey{1}, ListenPort: TunnelPort, Peers: []TunnelPeer{{Key: dataplane.PublicKey{1}, Carries: true}}}
			if p.Role == Client {
				tunnel.ListenPort, tunnel.Peers[0].Endpoint = 40000, netip.MustParseAddrPort("192.0.2.10:51840")
			}
			fmt.Fprintf(&b, "== gateway %s of %s\n%s", candidate.Pod, c.ID, dataplane.Text(CompileGateway(&c.Facts, self, tunnel, c.active())))
		}
	}
	return b.String()
}

func TestCompile(t *testing.T) {
	worlds := map[string]func() Cluster{
		"apart":       func() Cluster { rome, _ := apart(); return rome },
		"same ranges": func() Cluster { rome, _ := together(); return rome },
		"hub":         func() Cluster { rome, _, _ := hub(); return rome },
		"several pod CIDRs": func() Cluster {
			rome, milan := city("rome", "10.70.0.0/16", "10.10.0.0/16", "10.12.0.0/20"), city("milan", "10.70.0.0/16", "10.10.0.0/16", "10.12.0.0/20")
			peer(&milan, &rome, "10.71.0.0/16", "10.73.0.0/16", "10.81.0.0/16", "10.83.0.0/16")
			return rome
		},
		"pods outside node CIDRs": func() Cluster {
			rome, _ := apart()
			rome.Facts.OutOfCIDRPods = []OutOfCIDRPod{{IP: addr("10.10.9.9"), Node: "rome-1"}, {IP: addr("10.10.1.200"), Node: "rome-2"}}
			rome.Facts.Nodes[0].Running = []netip.Addr{addr("10.10.1.5"), addr("10.10.9.9")}
			rome.Facts.Nodes[1].Running = []netip.Addr{addr("10.10.1.200")}
			return rome
		},
		"full masquerade": func() Cluster {
			rome, _ := apart()
			rome.Facts.Options.FullMasquerade = true
			return rome
		},
		"no clamping": func() Cluster {
			rome, _ := apart()
			rome.Facts.Options = Options{OverlayPort: 7091, RulePriority: 100}
			return rome
		},
		"external hosts": func() Cluster {
			rome, _ := apart()
			rome.Facts.expose(Exposed{Kind: KindHost, Real: addr("192.0.2.7"), Object: "demo/printer"})
			rome.Facts.expose(Exposed{Kind: KindHost, Real: addr("10.96.0.1"), Object: "liqo/api-server"})
			rome.Facts.Exposed[1].Kind, rome.Facts.Exposed[1].Object = KindHost, "demo/second-node"
			return rome
		},
		"two replicas": func() Cluster {
			rome, _ := apart()
			p := &rome.Facts.Peers[0]
			p.Candidates = append(p.Candidates, Candidate{Pod: "gw-milan-1", IP: addr("10.10.2.100"), Node: "rome-2"})
			rome.Active = map[string]netip.Addr{"milan": addr("10.10.2.100")}
			return rome
		},
		"no gateway yet": func() Cluster {
			rome, _ := apart()
			rome.Facts.Peers[0].Candidates, rome.Facts.Peers[0].TunnelMTU = nil, 0
			return rome
		},
		"no peer": func() Cluster { return city("rome", "10.70.0.0/16", "10.10.0.0/16") },
	}
	for name, world := range worlds {
		t.Run(name, func(t *testing.T) {
			c := world()
			golden(t, name, compiled(&c))
		})
	}
}

// TestPlansDoNotGrowWithPods: plans do not depend on the number of pods inside the pod CIDRs of their nodes. Each pod outside of them adds one route per
// gateway replica, as docs/design/0003-network.md says.
func TestPlansDoNotGrowWithPods(t *testing.T) {
	plan := func(pods, strays int) string {
		rome, _ := apart()
		o := objects(t)
		o.Pods = append(o.Pods, runningPods(pods, strays)...)
		rome.Facts, _ = Gather(&o)
		return compiled(&rome)
	}
	if diff := cmp.Diff(plan(1, 0), plan(500, 0)); diff != "" {
		t.Errorf("500 pods inside the CIDRs of their nodes change plans:\n%s", diff)
	}
	if none, some := strings.Count(plan(1, 0), "\nroute "), strings.Count(plan(500, 7), "\nroute "); some != none+2*7 { // one more route per pod in each of two replicas
		t.Errorf("%d routes with 7 pods outside the CIDRs of their nodes, want %d", some, none+2*7)
	}
}

// TestNodesKnowTheirOwnPods: if the CNI assigns addresses by itself, a node does not rely on the pod CIDR that Kubernetes assigned to it. The node still
// prevents its own pods from sending into the overlay, and does not treat pods of other nodes as its own.
func TestNodesKnowTheirOwnPods(t *testing.T) {
	o := objects(t)
	own := runningPods(0, 1)[0] // on node rome-1
	o.Pods = append(o.Pods, own)
	f, _ := Gather(&o)
	state := CompileNode(&f, Host{Name: "rome-1", MTU: 1500}, FirstChoice(&f))
	pass := func(source string) bool { // whether a packet to the overlay port of the gateway passes
		p := &passage{state: &state, packet: Packet{Source: addr(source), Destination: addr("10.10.1.100"), Transport: dataplane.UDP, Port: DefaultOverlayPort}, in: podLink}
		return p.filter(dataplane.Prerouting)
	}
	if pass(own.Status.PodIP) {
		t.Errorf("%s may write into the overlay", own.Status.PodIP)
	}
	// The address of a pod on another node, although Kubernetes assigned its range to rome-1.
	if !pass("10.10.1.77") {
		t.Error("what comes from another node is taken for a pod of this one")
	}
}

// TestPlansGrowWithPeersAndNodes counts the objects in the plans of hosts: docs/design/0003-network.md promises each number.
func TestPlansGrowWithPeersAndNodes(t *testing.T) {
	count := func(peers, nodes int) (node, gateway dataplane.State) {
		c := city("rome", "10.70.0.0/16", "10.0.0.0/12")
		for i := len(c.Facts.Nodes); i < nodes; i++ {
			ip := netip.AddrFrom4([4]byte{172, 16, byte(1 + i/250), byte(i % 250)})
			c.Facts.Nodes = append(c.Facts.Nodes, Node{Name: fmt.Sprintf("rome-%d", i+1), IP: ip, Addresses: []netip.Addr{ip},
				Pods: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte((i + 1) / 250), byte((i + 1) % 250), 0}), 24)}})
		}
		for i := range peers {
			other := city(fmt.Sprint("peer-", i), fmt.Sprintf("10.%d.0.0/16", 101+2*i), fmt.Sprintf("10.%d.0.0/16", 100+2*i))
			peer(&other, &c, "", "", "", "")
		}
		first := c.Facts.Peers[0]
		return CompileNode(&c.Facts, Host{Name: "rome-1", MTU: 1500}, c.active()),
			CompileGateway(&c.Facts, Self{ClusterID: first.ClusterID, IP: first.Candidates[0].IP, Node: "rome-1", MTU: 1450}, Tunnel{}, c.active())
	}
	rules := func(s dataplane.State) (n int) {
		for _, c := range s.Table.Chains {
			n += len(c.Rules)
		}
		return n
	}
	for _, at := range []struct{ peers, nodes int }{{1, 2}, {10, 2}, {1, 100}, {10, 100}} {
		node, gateway := count(at.peers, at.nodes)
		// Want of a node: two routes and one member for each peer. Want of a gateway: two routes for its peer's ranges and one for the end of the table, two
		// routes for each node, and four for each other peer. The routes for other peers exist twice, since packets from nodes of the peer go through the
		// gateway's own node. Members of a gateway are the nodes and the other gateways.
		want := []int{2 * at.peers, at.peers, 3 + 2*at.nodes + 4*(at.peers-1), at.nodes + at.peers - 1}
		got := []int{len(node.Routes), len(node.Neighbours), len(gateway.Routes), len(gateway.Neighbours)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d peers, %d nodes: node routes, members, gateway routes, members (-want +got):\n%s", at.peers, at.nodes, diff)
		}
		one, two := count(1, 2)
		if rules(node) != rules(one) || rules(gateway) != rules(two) || len(node.Rules) != 4 || len(gateway.Rules) != 3+min(1, at.peers-1) {
			t.Errorf("%d peers, %d nodes: the number of rules changed", at.peers, at.nodes)
		}
	}
}

// TestPlansAreValid: no plan contains anything that a kernel rejects, whatever the API server returns. One such item would block all others.
func TestPlansAreValid(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	gateways, peers := 0, 0
	for range 3500 {
		o := randomObjects(r)
		f, _ := Gather(&o)
		peers += len(f.Peers)
		active := FirstChoice(&f)
		for _, n := range o.Nodes {
			host := Host{Name: n.Name, MTU: 1280 + r.IntN(8000), Addresses: []netip.Addr{addr("127.0.0.1"), addr("10.1.1.1")}}
			check(t, f, CompileNode(&f, host, active))
		}
		for _, p := range f.Peers {
			for _, c := range p.Candidates {
				gateways++
				tunnel := Tunnel{ListenPort: p.Port}
				if r.IntN(4) > 0 {
					tunnel.PrivateKey, tunnel.Peers = dataplane.PrivateKey{1}, Rotation{Present: dataplane.PublicKey{2}, Next: dataplane.PublicKey{byte(3 * r.IntN(2))}}.Peers(netip.AddrPort{})
				}
				check(t, f, CompileGateway(&f, Self{ClusterID: p.ClusterID, IP: c.IP, Node: c.Node, MTU: 1280 + r.IntN(8000)}, tunnel, active))
			}
		}
	}
	if peers < 1000 || gateways < 1000 {
		t.Errorf("%d peers and %d gateways in all worlds: the test does not try what matters", peers, gateways)
	}
}

func check(t *testing.T, f Facts, s dataplane.State) {
	t.Helper()
	if err := conformance.Validate(s, dataplane.Ours()); err != nil {
		t.Fatalf("%v\nfacts: %+v\n%s", err, f, dataplane.Text(s))
	}
}

// TestTunnelMTU: both sides compute the same MTU, whichever address of the server the client dialed.
func TestTunnelMTU(t *testing.T) {
	four, six := "192.0.2.10", "2001:db8::10"
	for name, c := range map[string]struct {
		spec      int
		addresses []string
		dialed    []netip.AddrPort
		want      int
	}{
		"IPv4":              {0, []string{four}, nil, 1440},
		"IPv6":              {0, []string{six}, nil, 1420},
		"both":              {0, []string{four, six}, nil, 1420},
		"IPv4 of both":      {0, []string{four, six}, []netip.AddrPort{netip.AddrPortFrom(addr(four), 51840)}, 1420},
		"a name for IPv6":   {0, []string{"gateway.example.com"}, []netip.AddrPort{netip.AddrPortFrom(addr(six), 51840)}, 1420},
		"a name not known":  {0, []string{"gateway.example.com"}, nil, 1440},
		"IPv4 within IPv6":  {0, []string{"::ffff:192.0.2.10"}, nil, 1440},
		"bound by the spec": {1340, []string{six}, nil, 1340},
	} {
		if got := TunnelMTU(&Peer{MTU: c.spec, Endpoints: c.addresses}, 1500, c.dialed...); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
	// A server knows the addresses that clients dial from its own status.
	o := objects(t)
	meta := o.GatewayClients[0].ObjectMeta
	o.GatewayClients = nil
	o.GatewayServers = []networkingv1beta1.GatewayServer{{ObjectMeta: meta, Status: networkingv1beta1.GatewayServerStatus{Endpoint: &networkingv1beta1.Endpoint{Addresses: []string{six}}}}}
	f, _ := Gather(&o)
	if got := TunnelMTU(&f.Peers[0], 1500); got != 1420 {
		t.Errorf("server reached over IPv6: got %d, want 1420", got)
	}
}
