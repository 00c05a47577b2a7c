package datapath

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/dataplane/kernel"
	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/network"
)

var (
	addr   = netip.MustParseAddr
	prefix = netip.MustParsePrefix
)

// Addresses that every cluster has, whatever its ranges.
const (
	printer  = "172.16.0.77" // a host in another network, with routes to its own network only
	services = "10.96.0.0/16"
)

// cluster is a cluster of network namespaces: two nodes on a LAN, a pod on each, a host outside the cluster, and a gateway pod for each peer.
type cluster struct {
	network.Cluster
	lan      *lan
	nodes    []*host
	pods     []*host
	outside  *host
	gateways map[string]*host
	tunnels  map[string]*tunnel
	mtu      int // MTU of the links that carry packets of pods
}

// newCluster creates a cluster without peers. As with most CNIs, it routes between nodes, and masquerades packets to destinations outside. As on some nodes,
// reverse path filtering is strict.
func newCluster(t *testing.T, id, pods, external string) *cluster {
	t.Helper()
	c := &cluster{Cluster: network.Cluster{ID: id}, lan: newLAN(t, id+"-lan"), gateways: map[string]*host{}, tunnels: map[string]*tunnel{}, mtu: 1500}
	f := &c.Facts
	f.Pods, f.External, f.Services = []netip.Prefix{prefix(pods)}, prefix(external), []netip.Prefix{prefix(services)}
	f.Options.ClampMSS = true
	c.outside = newHost(t, id+"-printer")
	c.lan.plug(t, c.outside, "eth0", netip.PrefixFrom(addr(printer), 24))
	base := f.Pods[0].Addr().As4()
	for i := byte(1); i <= 2; i++ {
		n := newHost(t, fmt.Sprintf("%s-node-%d", id, i))
		ip := netip.AddrFrom4([4]byte{172, 16, 0, i})
		c.lan.plug(t, n, "eth0", netip.PrefixFrom(ip, 24))
		n.sysctl(t, "1", "ip_forward", "conf.all.rp_filter", "conf.default.rp_filter")
		c.nodes = append(c.nodes, n)
		f.Nodes = append(f.Nodes, network.Node{Name: n.name, IP: ip, Addresses: []netip.Addr{ip},
			Pods: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{base[0], base[1], i, 0}), 24)}})
		c.expose(network.Exposed{Kind: network.KindNode, Real: ip, Node: n.name, Object: "liqo/node-" + n.name})
	}
	for i, n := range c.nodes {
		other := f.Nodes[1-i]
		n.route(t, other.Pods[0].String(), "eth0", other.IP.String())
		c.pods = append(c.pods, c.pod(t, fmt.Sprintf("%s-pod-%d", id, i+1), i, 5))
		kubernetes(t, n, f.Pods[0], f.Nodes[i].Pods[0].Addr().Next())
	}
	return c
}

// pod creates a pod on a node as CNIs do: with an address of the node's CIDR, and a link to the node, its only neighbour.
func (c *cluster) pod(t *testing.T, name string, node int, last byte) *host {
	t.Helper()
	p, n := newHost(t, name), c.nodes[node]
	base := c.Facts.Nodes[node].Pods[0].Addr().As4()
	base[3] = last
	ip := netip.AddrFrom4(base)
	base[3] = 1
	bridge := netip.AddrFrom4(base)
	port := fmt.Sprint("pod", last)
	wire(t, p, "eth0", n, port)
	p.address(t, "eth0", ip.String()+"/32")
	p.route(t, bridge.String()+"/32", "eth0", "")
	p.route(t, "0.0.0.0/0", "eth0", bridge.String())
	n.address(t, port, bridge.String()+"/32")
	n.route(t, ip.String()+"/32", port, "")
	return p
}

// podAtPlaceOf creates a pod with the same host part of the address, within its node's pod CIDR, as another pod has. If the clusters have the same ranges, both
// pods have the same address.
func (c *cluster) podAtPlaceOf(t *testing.T, of *host) (*host, network.End) {
	t.Helper()
	last := of.podIP(t).As4()[3]
	p := c.pod(t, fmt.Sprintf("%s-same", c.ID), 0, last)
	return p, network.End{Cluster: c.ID, Name: p.name, Address: p.podIP(t), Node: c.nodes[0].name}
}

// podIP returns the address of a pod or a gateway.
func (h *host) podIP(t *testing.T) netip.Addr {
	t.Helper()
	addresses, err := h.kernel.AddrList(h.link(t, "eth0"), 2)
	if err != nil || len(addresses) != 1 {
		t.Fatalf("%s: addresses %v: %v", h.name, addresses, err)
	}
	ip, _ := netip.AddrFromSlice(addresses[0].IP.To4())
	return ip
}

func (c *cluster) expose(e network.Exposed) netip.Addr {
	f := &c.Facts
	e.External = f.External.Addr().Next()
	for range f.Exposed {
		e.External = e.External.Next()
	}
	f.Exposed = append(f.Exposed, e)
	return e.External
}

// internet is the network between clusters, in which gateways have an address.
type internet struct {
	*lan
	next netip.Addr
}

func newInternet(t *testing.T) *internet {
	return &internet{lan: newLAN(t, "internet"), next: addr("192.0.2.10")}
}

// peer creates the gateways of two clusters, the first of which is the server, and the objects of the peering. An empty view means that the range is not
// remapped.
func (i *internet) peer(t *testing.T, server, client *cluster, serverPods, serverExternal, clientPods, clientExternal string) {
	t.Helper()
	add := func(in, of *cluster, role network.Role, pods, external string) netip.Addr {
		remap := func(real netip.Prefix, view string) []ipam.Remap {
			if view == "" {
				return []ipam.Remap{{Real: real, View: real}}
			}
			return []ipam.Remap{{Real: real, View: prefix(view)}}
		}
		number := len(in.Facts.Peers)
		node := number % len(in.nodes)
		gw := in.pod(t, fmt.Sprintf("%s-gateway-to-%s", in.ID, of.ID), node, byte(either(role == network.Server, 100, 150)+number))
		gw.must(t, func() error { return gateway.Prepare(gateway.Sysctls) })
		i.plug(t, gw, "wan0", netip.PrefixFrom(i.next, 24))
		endpoint := i.next
		i.next = i.next.Next()
		in.gateways[of.ID] = gw
		in.tunnels[of.ID] = newTunnel(t, gw)
		in.Facts.Peers = append(in.Facts.Peers, network.Peer{
			ClusterID: of.ID, Namespace: "liqo-tenant-" + of.ID, Gateway: of.ID, Role: role, MTU: 1340, TunnelMTU: 1340, Port: network.TunnelPort, Connection: "Connected",
			Pods: remap(of.Facts.Pods[0], pods), External: remap(of.Facts.External, external),
			Candidates: []network.Candidate{{Pod: gw.name, IP: gw.podIP(t), Node: in.nodes[node].name, Ready: true}},
		})
		return endpoint
	}
	endpoint := add(server, client, network.Server, clientPods, clientExternal)
	add(client, server, network.Client, serverPods, serverExternal)
	here, there := server.tunnels[client.ID], client.tunnels[server.ID]
	here.peers = []network.TunnelPeer{{Key: there.public(), Carries: true}}
	there.peers = []network.TunnelPeer{{Key: here.public(), Endpoint: netip.AddrPortFrom(endpoint, network.TunnelPort), Carries: true}}
	here.port = network.TunnelPort
}

func either[T any](condition bool, yes, no T) T {
	if condition {
		return yes
	}
	return no
}

// apply applies the plans of all hosts, and checks that no difference is left.
func (c *cluster) apply(t *testing.T) {
	t.Helper()
	active := network.FirstChoice(&c.Facts)
	for i, n := range c.nodes {
		host := network.Host{Name: n.name, MTU: c.mtu, Addresses: []netip.Addr{c.Facts.Nodes[i].IP, c.Facts.Nodes[i].Pods[0].Addr().Next()}}
		apply(t, n, nil, network.CompileNode(&c.Facts, host, active))
	}
	for _, p := range c.Facts.Peers {
		gw, tun := c.gateways[p.ClusterID], c.tunnels[p.ClusterID]
		self := network.Self{ClusterID: p.ClusterID, IP: gw.podIP(t), Node: p.Candidates[0].Node, MTU: c.mtu}
		apply(t, gw, tun, network.CompileGateway(&c.Facts, self, network.Tunnel{PrivateKey: tun.key, ListenPort: tun.port, Peers: tun.peers}, active))
	}
}

func apply(t *testing.T, h *host, devices kernel.Devices, want dataplane.State) {
	t.Helper()
	k, err := kernel.At(h.ns, devices)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	have, err := k.Read(t.Context(), dataplane.Ours())
	if err == nil {
		err = k.Apply(t.Context(), dataplane.Diff(have, want, dataplane.Ours()))
	}
	if err != nil {
		t.Fatalf("%s: %v", h.name, err)
	}
	if have, err = k.Read(t.Context(), dataplane.Ours()); err != nil {
		t.Fatalf("%s: %v", h.name, err)
	}
	if left := dataplane.Diff(have, want, dataplane.Ours()); len(left) > 0 {
		t.Fatalf("%s: changes are left: %v", h.name, left)
	}
}

// dropped returns the number of packets that rules with this text dropped on a host.
func dropped(t *testing.T, h *host, devices kernel.Devices, rule string) uint64 {
	t.Helper()
	k, err := kernel.At(h.ns, devices)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	have, err := k.Read(t.Context(), dataplane.Ours())
	if err != nil || have.Table == nil {
		t.Fatalf("%s: reading the table: %v", h.name, err)
	}
	var packets uint64
	found := false
	for _, c := range have.Table.Chains {
		for _, r := range c.Rules {
			if text := c.Name + ": " + r.String(); strings.HasPrefix(text, rule) {
				packets, found = packets+r.Packets, true
			}
		}
	}
	if !found {
		t.Fatalf("%s: no rule %q in\n%s", h.name, rule, have.Table)
	}
	return packets
}
