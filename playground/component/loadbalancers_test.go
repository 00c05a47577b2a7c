package component

import (
	"slices"
	"strings"
	"testing"
)

// TestNoLoadBalancers: without load balancers, the cloud has no addresses to assign, and a cluster with some is another one.
func TestNoLoadBalancers(t *testing.T) {
	with, without := Cluster{Name: "rome", Index: 1, Nodes: 1}, Cluster{Name: "rome", Index: 1, Nodes: 1, NoLoadBalancers: true}
	for _, c := range []Cluster{with, without} {
		pool := slices.ContainsFunc(c.cloud().Args, func(arg string) bool { return strings.HasPrefix(arg, "--address-pool=") })
		if pool == c.NoLoadBalancers {
			t.Errorf("no load balancers: %t, an address pool: %t", c.NoLoadBalancers, pool)
		}
	}
	if lacks := with.Lacks(without); len(lacks) != 1 {
		t.Errorf("a cluster with load balancers lacks %v", lacks)
	}
}
