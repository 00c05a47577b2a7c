package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/clitest"
)

// TestPeerReplacesNoOtherCluster: a peering that would replace another cluster of the same ID, or a node, is refused before the first change, with
// the same message in a dry run. --force replaces a key, and says which.
func TestPeerReplacesNoOtherCluster(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	apart := w.snapshot()
	// changed is a state after other hands worked on it.
	changed := func(at worldSnapshot, change func()) worldSnapshot {
		t.Helper()
		w.begin(at)
		change()
		return w.snapshot()
	}
	after := func(at worldSnapshot, command string) worldSnapshot {
		t.Helper()
		ran := w.in(t, at, command, nil)
		if ran.code != 0 {
			t.Fatalf("%s: code %d: %s%s", command, ran.code, ran.out, ran.said)
		}
		return ran.left
	}
	rome, milan := w.clusters["rome"].client, w.clusters["milan"].client
	_, otherKey := keyPair(t, "x")
	_, ownKey := keyPair(t, "r")
	takeOver := func(at worldSnapshot) worldSnapshot {
		return changed(at, func() {
			tenant := &authv1beta1.Tenant{}
			key := client.ObjectKey{Namespace: api.TenantNamespace("rome"), Name: "rome"}
			if err := milan.Get(t.Context(), key, tenant); err != nil {
				t.Fatal(err)
			}
			tenant.Spec.PublicKey = otherKey
			if err := milan.Update(t.Context(), tenant); err != nil {
				t.Fatal(err)
			}
		})
	}
	peered := after(apart, "peer"+lawBoth)
	authenticated := after(apart, "authenticate"+lawBoth)
	known := takeOver(authenticated)
	knownBack := changed(authenticated, func() { // the other direction: rome knows another milan as its consumer
		clitest.Create(t, rome, &authv1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace("milan"), Name: "milan", Labels: map[string]string{api.LabelRemoteClusterID: "milan"}},
			Spec:       authv1beta1.TenantSpec{ClusterID: "milan", PublicKey: otherKey},
		})
	})
	elsewhere := changed(authenticated, func() { // the Identity is one of another milan, and this one knows no rome
		identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace("milan"), Name: "controlplane-milan"}}
		edit(t, rome, identity, func() { identity.Spec.AuthParams.CA = []byte("another CA") })
		if err := milan.Delete(t.Context(), &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace("rome"), Name: "rome"}}); err != nil {
			t.Fatal(err)
		}
	})
	realNode := changed(apart, func() { clitest.Create(t, rome, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}) })
	realNodeThere := changed(apart, func() { clitest.Create(t, milan, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}) })
	othersNode := changed(peered, func() {
		node := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace("milan"), Name: "milan"}}
		edit(t, rome, node, func() { node.Spec.ClusterID = "turin" })
	})
	sliced := after(apart, "peer --create-virtual-node=false"+lawBoth)
	slicedNode := changed(sliced, func() { clitest.Create(t, rome, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}) })
	otherThan := func(id string) string {
		return "has the public key " + peering.Fingerprint(otherKey) + ", cluster " + id + " has "
	}
	bothKeys := []string{peering.Fingerprint(otherKey), peering.Fingerprint(ownKey), "--force"}
	const realName = "Node milan is a node of cluster rome itself, and the virtual node of cluster milan would have the same name"
	for _, test := range []struct {
		command string
		at      worldSnapshot
		says    []string
	}{
		{"peer" + lawBoth, known, bothKeys},
		{"peer" + lawBoth, known, []string{otherThan("rome") + peering.Fingerprint(ownKey), "If two clusters have the ID rome"}},
		{"peer in-band --bidirectional" + lawBoth, knownBack, []string{otherThan("milan"), "If two clusters have the ID milan"}},
		{"peer in-band" + lawBoth, known, bothKeys},
		{"authenticate" + lawBoth, known, bothKeys},
		{"peer" + lawBoth, elsewhere, []string{
			"has the CA " + peering.Fingerprint([]byte("another CA")) + ", but the API server of cluster milan has the CA " + peering.Fingerprint([]byte("the CA")),
			"If two clusters have the ID milan", "--force",
		}},
		{"peer" + lawBoth, realNode, []string{realName, "--create-resource-slice=false", "liqoctl create resourceslice NAME --remote-cluster-id milan"}},
		{lawIntroduction, realNode, []string{realName, "give another NAME"}},
		{"peer in-band --bidirectional" + lawBoth, realNodeThere, []string{"Node rome is a node of cluster milan itself"}},
		{"peer" + lawBoth, othersNode, []string{"VirtualNode milan in namespace liqo-tenant-milan is a node of cluster turin"}},
		{"create resourceslice rome-1 --remote-cluster-id milan" + lawOne, authenticated, []string{"Node rome-1 is a node of cluster rome itself", "another name"}},
		{"create virtualnode milan --remote-cluster-id milan --resource-slice-name milan" + lawOne, slicedNode, []string{realName, "another name"}},
	} {
		w.refuses(t, test.at, test.command, test.says)
	}
	for _, at := range []worldSnapshot{known, elsewhere} {
		ran := w.in(t, at, "peer --force"+lawBoth, nil)
		if ran.code != 0 || !strings.Contains(ran.said, "replaced by") || !strings.Contains(ran.said, "(--force)") ||
			strings.Contains(ran.said, "The key ") && !strings.Contains(ran.said, "for up to 7 days. If another person may have the key, give the cluster another ID") {
			t.Errorf("with --force: code %d: %s", ran.code, ran.said)
		}
		w.begin(ran.left)
		tenant := &authv1beta1.Tenant{}
		if err := milan.Get(t.Context(), client.ObjectKey{Namespace: api.TenantNamespace("rome"), Name: "rome"}, tenant); err != nil || !slices.Equal(tenant.Spec.PublicKey, ownKey) {
			t.Errorf("the key was not replaced: %v", err)
		}
	}
	// A peering that replaces no other cluster needs no --force.
	for _, at := range []worldSnapshot{apart, peered, authenticated} {
		if ran := w.in(t, at, "peer"+lawBoth, nil); ran.code != 0 {
			t.Errorf("code %d: %s", ran.code, ran.said)
		}
	}
}
