package dashboard

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// TestOrderOfObjectsChangesNothing: caches list objects in any order, and the page does not change for that.
func TestOrderOfObjectsChangesNothing(t *testing.T) {
	state, other := peered(), peered()
	for i := range other.Clusters {
		c := &other.Clusters[i]
		slices.Reverse(c.Peers)
		slices.Reverse(c.Connections)
		slices.Reverse(c.VirtualNodes)
		slices.Reverse(c.Offloadings)
		slices.Reverse(c.Maps)
		slices.Reverse(c.Nodes)
		slices.Reverse(c.Pods)
		slices.Reverse(c.Events)
	}
	if patch := Diff(Compute(state), Compute(other)); !patch.Empty() {
		t.Errorf("another order of the same objects changes %v, removes %v", slices.Sorted(maps.Keys(patch.Set)), patch.Removed)
	}
}

// TestPatchesLeadToTheDocuments: whatever changes, the patch leads from the documents before to those after, and has nothing that did not change.
func TestPatchesLeadToTheDocuments(t *testing.T) {
	for name, change := range map[string]func(*State){
		"nothing":                 func(*State) {},
		"a pod moves":             func(s *State) { s.Clusters[0].Pods[2].Spec.NodeName = "milan" },
		"a pod is gone":           func(s *State) { s.Clusters[0].Pods = s.Clusters[0].Pods[1:] },
		"the tunnel is down":      func(s *State) { s.Clusters[0].Connections[0].Status.Value = networkingv1beta1.ConnectionError },
		"the peering is gone":     func(s *State) { s.Clusters[0].Peers, s.Clusters[1].Peers = nil, nil },
		"the diagnosis is better": func(s *State) { s.Findings = nil },
		"nothing is left":         func(s *State) { s.Clusters = nil },
	} {
		before := Compute(peered())
		state := peered()
		change(state)
		after := Compute(state)
		patch := Diff(before, after)
		if diff := cmp.Diff(after, patch.Apply(before)); diff != "" {
			t.Errorf("%s: the patch leads elsewhere (-want +got):\n%s", name, diff)
		}
		for key, document := range patch.Set {
			if string(before[key]) == string(document) {
				t.Errorf("%s: the patch has %s, which did not change", name, key)
			}
		}
		if name == "nothing" && !patch.Empty() {
			t.Errorf("nothing changed, and the patch has %v", patch)
		}
	}
	if all := Compute(peered()); cmp.Diff(all, Diff(nil, all).Apply(nil)) != "" {
		t.Error("the first patch does not have everything")
	}
}
