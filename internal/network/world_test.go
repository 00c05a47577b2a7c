package network

import (
	"fmt"
	"net/netip"
	"testing"

	"liqo.io/liqo/internal/ipam"
)

var (
	addr   = netip.MustParseAddr
	prefix = netip.MustParsePrefix
)

// city returns a cluster of two nodes without peers. Its first pod CIDR is divided between the nodes.
func city(id string, external string, pods ...string) Cluster {
	f := Facts{External: prefix(external), Services: []netip.Prefix{prefix("10.96.0.0/16")}, Options: Options{ClampMSS: true}}
	for _, p := range pods {
		f.Pods = append(f.Pods, prefix(p))
	}
	first := f.Pods[0].Addr().As4()
	for i := byte(1); i <= 2; i++ {
		ip := netip.AddrFrom4([4]byte{172, 16, 0, i})
		f.Nodes = append(f.Nodes, Node{Name: fmt.Sprintf("%s-%d", id, i), IP: ip, Addresses: []netip.Addr{ip},
			Pods: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{first[0], first[1], i, 0}), 24)}})
		f.expose(Exposed{Kind: KindNode, Real: ip, Node: f.Nodes[i-1].Name, Object: fmt.Sprintf("liqo/node-%s-%d", id, i)})
	}
	return Cluster{ID: id, Facts: f}
}

// expose exposes an address under the next free address of the external CIDR.
func (f *Facts) expose(e Exposed) netip.Addr {
	e.External = f.External.Addr().Next()
	for range f.Exposed {
		e.External = e.External.Next()
	}
	f.Exposed = append(f.Exposed, e)
	return e.External
}

// peer peers two clusters. The prefixes are the first views of each cluster's pod CIDRs and of its external CIDR in the other cluster. An empty prefix means
// that nothing is remapped.
func peer(server, client *Cluster, serverPods, serverExternal, clientPods, clientExternal string) {
	add := func(in, of *Cluster, role Role, pods, external string) {
		f := &in.Facts
		p := Peer{ClusterID: of.ID, Namespace: "liqo-tenant-" + of.ID, Gateway: of.ID, Role: role, MTU: 1340, TunnelMTU: 1340, Port: TunnelPort, Connection: "Connected"}
		for i, real := range of.Facts.Pods {
			view := real
			if pods != "" {
				v := prefix(pods).Addr().As4()
				v[1] += byte(i)
				view = netip.PrefixFrom(netip.AddrFrom4(v), real.Bits())
			}
			p.Pods = append(p.Pods, ipam.Remap{Real: real, View: view})
		}
		view := of.Facts.External
		if external != "" {
			view = prefix(external)
		}
		p.External = []ipam.Remap{{Real: of.Facts.External, View: view}}
		on := f.Nodes[len(f.Peers)%len(f.Nodes)]
		ip := on.Pods[0].Addr().As4()
		ip[3] = byte(either(role == Server, 100, 150) + len(f.Peers))
		p.Candidates = []Candidate{{Pod: "gw-" + of.ID + "-0", IP: netip.AddrFrom4(ip), Node: on.Name, Ready: true}}
		if role == Client {
			p.Endpoints = []string{"192.0.2.10"}
		}
		f.Peers = append(f.Peers, p)
	}
	add(server, client, Server, clientPods, clientExternal)
	add(client, server, Client, serverPods, serverExternal)
}

// apart returns two clusters with disjoint ranges.
func apart() (rome, milan Cluster) {
	rome, milan = city("rome", "10.70.0.0/16", "10.10.0.0/16"), city("milan", "10.71.0.0/16", "10.20.0.0/16")
	peer(&milan, &rome, "", "", "", "")
	return rome, milan
}

func together() (rome, milan Cluster) {
	rome, milan = city("rome", "10.70.0.0/16", "10.200.0.0/16"), city("milan", "10.70.0.0/16", "10.200.0.0/16")
	peer(&milan, &rome, "10.71.0.0/16", "10.73.0.0/16", "10.72.0.0/16", "10.74.0.0/16")
	return rome, milan
}

// hub returns three clusters with the same ranges. rome is peered with the two others and offloaded a pod to each of them.
func hub() (rome, milan, turin Cluster) {
	rome, milan, turin = city("rome", "10.70.0.0/16", "10.200.0.0/16"), city("milan", "10.70.0.0/16", "10.200.0.0/16"), city("turin", "10.70.0.0/16", "10.200.0.0/16")
	peer(&milan, &rome, "10.71.0.0/16", "10.73.0.0/16", "10.72.0.0/16", "10.74.0.0/16")
	peer(&turin, &rome, "10.75.0.0/16", "10.76.0.0/16", "10.71.0.0/16", "10.72.0.0/16")
	rome.Facts.expose(Exposed{Kind: KindPeer, Real: addr("10.71.1.7"), Object: "demo/in-milan"})
	rome.Facts.expose(Exposed{Kind: KindPeer, Real: addr("10.75.2.9"), Object: "demo/in-turin"})
	return rome, milan, turin
}

func pod(c *Cluster, node int, host byte) End {
	n := c.Facts.Nodes[node]
	ip := n.Pods[0].Addr().As4()
	ip[3] = host
	return End{Cluster: c.ID, Name: fmt.Sprintf("demo/%s-%d-%d", c.ID, node, host), Address: netip.AddrFrom4(ip), Node: n.Name}
}

func nodeEnd(c *Cluster, node int) End {
	n := c.Facts.Nodes[node]
	return End{Cluster: c.ID, Name: n.Name, Address: n.IP, Node: n.Name}
}

func mustExplain(t *testing.T, clusters []Cluster, from, to End) Explanation {
	t.Helper()
	e := Explain(clusters, from, to)
	if e.Fault != nil {
		t.Fatalf("%s", e)
	}
	return e
}
