package component

import (
	"slices"
	"testing"
)

// TestNoClientSigner: without the signer for users, the others still have their key, and a cluster with it is another one.
func TestNoClientSigner(t *testing.T) {
	with, without := Cluster{Name: "rome", Index: 1, Nodes: 1}, Cluster{Name: "rome", Index: 1, Nodes: 1, NoClientSigner: true}
	for _, c := range []Cluster{with, without} {
		for flag, want := range map[string]bool{
			"": !c.NoClientSigner, "kube-apiserver-client-": false, "kubelet-client-": c.NoClientSigner, "kubelet-serving-": c.NoClientSigner,
		} {
			arg := "--cluster-signing-" + flag + "cert-file=" + credential("ca.crt")
			if slices.Contains(c.controllerManager().Args, arg) != want {
				t.Errorf("no client signer: %t: %s, want it %t", c.NoClientSigner, arg, want)
			}
		}
	}
	if lacks := with.Lacks(without); len(lacks) != 1 {
		t.Errorf("a cluster with the signer lacks %v", lacks)
	}
}
