package datapath

import (
	"slices"
	"testing"

	"liqo.io/liqo/internal/network"
)

// world is a set of clusters that are peered.
type world struct {
	rome, milan, turin *cluster
	internet           *internet
}

func (w *world) all() []*cluster {
	return slices.DeleteFunc([]*cluster{w.rome, w.milan, w.turin}, func(c *cluster) bool { return c == nil })
}

// ready applies the plans of all hosts and waits for the tunnels.
func (w *world) ready(t *testing.T) *world {
	t.Helper()
	for _, c := range w.all() {
		c.apply(t)
	}
	for _, c := range w.all() {
		for _, p := range c.Facts.Peers {
			if p.Role == network.Client {
				if err := c.gateways[p.ClusterID].ping(network.ServerAddress().Addr(), 1); err != nil {
					t.Fatalf("the tunnel from %s to %s: %v", c.ID, p.ClusterID, err)
				}
			}
		}
	}
	return w
}

// apart returns two clusters with disjoint ranges.
func apart(t *testing.T) *world {
	w := &world{rome: newCluster(t, "rome", "10.10.0.0/16", "10.70.0.0/16"), milan: newCluster(t, "milan", "10.20.0.0/16", "10.71.0.0/16")}
	w.internet = newInternet(t)
	w.internet.peer(t, w.milan, w.rome, "", "", "", "")
	return w
}

// together returns two clusters with the same ranges, nodes and services.
func together(t *testing.T) *world {
	w := &world{rome: newCluster(t, "rome", "10.200.0.0/16", "10.70.0.0/16"), milan: newCluster(t, "milan", "10.200.0.0/16", "10.70.0.0/16")}
	w.internet = newInternet(t)
	w.internet.peer(t, w.milan, w.rome, "10.71.0.0/16", "10.73.0.0/16", "10.72.0.0/16", "10.74.0.0/16")
	return w
}

// crossed returns two clusters whose views overlap the other kind of range: each sees the other's pods in the range of the other's external CIDR, and vice
// versa. An address must not be translated twice.
func crossed(t *testing.T) *world {
	w := &world{rome: newCluster(t, "rome", "10.10.0.0/16", "10.70.0.0/16"), milan: newCluster(t, "milan", "10.20.0.0/16", "10.30.0.0/16")}
	w.internet = newInternet(t)
	w.internet.peer(t, w.milan, w.rome, "10.30.0.0/16", "10.20.0.0/16", "10.70.0.0/16", "10.10.0.0/16")
	return w
}

// hub returns three clusters with the same ranges. rome is peered with the other two.
func hub(t *testing.T) *world {
	w := &world{}
	for at, id := range map[**cluster]string{&w.rome: "rome", &w.milan: "milan", &w.turin: "turin"} {
		*at = newCluster(t, id, "10.200.0.0/16", "10.70.0.0/16")
	}
	w.internet = newInternet(t)
	w.internet.peer(t, w.milan, w.rome, "10.71.0.0/16", "10.73.0.0/16", "10.72.0.0/16", "10.74.0.0/16")
	w.internet.peer(t, w.turin, w.rome, "10.75.0.0/16", "10.76.0.0/16", "10.71.0.0/16", "10.72.0.0/16")
	return w
}

func (c *cluster) podEnd(t *testing.T, i int) network.End {
	return network.End{Cluster: c.ID, Name: c.pods[i].name, Address: c.pods[i].podIP(t), Node: c.nodes[i].name}
}

func (c *cluster) nodeEnd(i int) network.End {
	return network.End{Cluster: c.ID, Name: c.nodes[i].name, Address: c.Facts.Nodes[i].IP, Node: c.nodes[i].name}
}

func (c *cluster) end(name, address string) network.End {
	return network.End{Cluster: c.ID, Name: name, Address: addr(address)}
}

// explain returns the result of network.Explain, which must be a complete path.
func (w *world) explain(t *testing.T, from, to network.End) network.Explanation {
	t.Helper()
	var all []network.Cluster
	for _, c := range w.all() {
		all = append(all, c.Cluster)
	}
	e := network.Explain(all, from, to)
	if e.Fault != nil {
		t.Fatalf("%s", e)
	}
	return e
}

func mustTranslation(t *testing.T, c *cluster, peer string) network.Translation {
	t.Helper()
	translation, ok := c.Facts.Translation(peer)
	if !ok {
		t.Fatalf("%s has no peer %s", c.ID, peer)
	}
	return translation
}
