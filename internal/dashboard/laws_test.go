package dashboard

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// TestOrderOfObjectsChangesNothing: caches list objects in any order, and the page does not change for that, even where objects contradict each
// other.
func TestOrderOfObjectsChangesNothing(t *testing.T) {
	want := Compute(contradictory())
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 { // repeat, since Go also iterates over maps in random order
		other := contradictory()
		for i := range other.Clusters {
			c := &other.Clusters[i]
			shuffle(t, random, c.Peers)
			shuffle(t, random, c.Connections)
			shuffle(t, random, c.VirtualNodes)
			shuffle(t, random, c.Offloadings)
			shuffle(t, random, c.Maps)
			shuffle(t, random, c.Nodes)
			shuffle(t, random, c.Pods)
			shuffle(t, random, c.Events)
			shuffle(t, random, c.Claims)
			shuffle(t, random, c.Volumes)
			shuffle(t, random, c.Classes)
		}
		got := Compute(other)
		patch := Diff(want, got)
		for key, document := range patch.Set {
			t.Errorf("another order of the same objects changes %s from\n%s to\n%s", key, want[key], document)
		}
		if len(patch.Removed) > 0 {
			t.Errorf("another order of the same objects removes %v", patch.Removed)
		}
		if t.Failed() {
			return
		}
	}
}

// shuffle puts objects into a random order. A single object, which has only one order, is an error of the test.
func shuffle[T any](t *testing.T, random *rand.Rand, objects []T) {
	t.Helper()
	if len(objects) < 2 {
		t.Fatalf("there are %d %T to shuffle: add some", len(objects), objects)
	}
	random.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
}

// contradictory returns a state with at least two objects of each kind in each cluster. They contradict each other: they describe the same peer, virtual node
// or namespace differently.
func contradictory() *State {
	state := peered()
	for i := range state.Clusters {
		c := &state.Clusters[i]
		contradictoryVolumes(c)
		for n, name := range []string{"one", "two"} {
			peer := peerOf("naples", corev1beta1.PhaseEstablished, corev1beta1.PhasePending, corev1beta1.PhaseEstablished)
			peer.Name = "naples-" + name
			peer.Status.Peering.Type = []corev1beta1.PeeringType{corev1beta1.OutOfBand, corev1beta1.InBand}[n]
			peer.Status.APIServerURL = "https://" + c.ID + "." + name
			peer.Status.Conditions = []corev1beta1.Condition{{Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusError, Message: name}}
			c.Peers = append(c.Peers, peer)

			connection := connectionTo("naples", []string{networkingv1beta1.Connecting, networkingv1beta1.ConnectionError}[n], []string{"1ms", "2ms"}[n])
			connection.Name += name
			c.Connections = append(c.Connections, connection)

			virtual := offloadingv1beta1.VirtualNode{
				ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-" + name, Name: "pool"}, Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: name},
			}
			virtual.Spec.ResourceQuota.Hard = resources([]string{"1", "2"}[n], "1Gi")
			c.VirtualNodes = append(c.VirtualNodes, virtual)

			offloading := offloadingv1beta1.NamespaceOffloading{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
				Spec: offloadingv1beta1.NamespaceOffloadingSpec{
					PodOffloadingStrategy: []offloadingv1beta1.PodOffloadingStrategy{offloadingv1beta1.PodsLocal, offloadingv1beta1.PodsRemote}[n],
				},
				Status: offloadingv1beta1.NamespaceOffloadingStatus{
					OffloadingPhase: offloadingv1beta1.PhaseSomeFailed, RemoteNamespacesConditions: map[string][]offloadingv1beta1.RemoteNamespaceCondition{},
				},
			}
			for _, provider := range []string{"alba", "naples", "zara"} {
				offloading.Status.RemoteNamespacesConditions[provider] = []offloadingv1beta1.RemoteNamespaceCondition{{
					Type: offloadingv1beta1.RemoteNamespaceReady, Status: corev1.ConditionFalse, Reason: name, Message: provider,
				}}
			}
			c.Offloadings = append(c.Offloadings, offloading)

			c.Maps = append(c.Maps, offloadingv1beta1.NamespaceMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-naples", Name: "own-" + name, Labels: map[string]string{api.LabelRemoteID: "naples"}},
				Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"shop": "shop-" + name}},
			}, offloadingv1beta1.NamespaceMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-" + name, Name: "of-" + name, Labels: map[string]string{
					api.LabelReplicated: api.True, api.LabelOriginID: "consumer-" + name,
				}},
				Status: offloadingv1beta1.NamespaceMapStatus{CurrentMapping: map[string]offloadingv1beta1.RemoteNamespaceStatus{
					"a": {RemoteNamespace: "theirs", Phase: offloadingv1beta1.MappingAccepted},
					"b": {RemoteNamespace: "theirs", Phase: offloadingv1beta1.MappingCreationLoopBackOff},
				}},
			})
			c.Nodes = append(c.Nodes, nodeNamed("more-"+name, "2", "2Gi"), virtualNode("virtual-"+name, "naples", "1", "1Gi"))
			c.Pods = append(c.Pods, podOn("shop", name, "virtual-"+name, "100m", "1Mi"), podOn("theirs", name, "more-"+name, "300m", "1Mi"))
			c.Events = append(c.Events, event("shop", name, "Pod", name, 40))
		}
	}
	return state
}

// TestPatchesLeadToTheDocuments: whatever changes, the patch turns the documents before into the documents after, and contains no unchanged document.
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
