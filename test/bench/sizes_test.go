package main

import "testing"

// TestSizesAreConstantInPods: the size of a gateway's kernel configuration grows with nodes and peers, not with pods.
func TestSizesAreConstantInPods(t *testing.T) {
	few, many := size(2, 20, 10), size(2, 20, 2000)
	few.Pods = many.Pods
	if few != many {
		t.Errorf("with 10 pods %+v, with 2000 %+v", few, many)
	}
	if more := size(2, 40, 10); more.GatewayRoutes <= few.GatewayRoutes || more.NodeRoutes != few.NodeRoutes {
		t.Errorf("with 20 nodes %+v, with 40 %+v", few, more)
	}
	for _, s := range sizes() {
		t.Logf("%+v", s)
	}
}
