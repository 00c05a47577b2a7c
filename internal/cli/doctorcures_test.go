package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/test/clitest"
)

// betweenClusters are two peered clusters in memory, rome and milan, whose objects are broken.
type betweenClusters struct {
	t *testing.T
	*world
	// peered is how both clusters are while nothing is wrong.
	peered worldSnapshot
	// good and expired are certificates, by the clock of the commands.
	good, expired []byte
}

// change changes an object of a cluster, including its status.
func (b *betweenClusters) change(cluster string, object client.Object, to func()) {
	b.t.Helper()
	c := b.clusters[cluster].client
	if err := c.Get(b.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		b.t.Fatal(err)
	}
	to()
	status := object.DeepCopyObject().(client.Object)
	if err := c.Update(b.t.Context(), object); err != nil {
		b.t.Fatal(err)
	}
	status.SetResourceVersion(object.GetResourceVersion())
	if err := c.Status().Update(b.t.Context(), status); err != nil {
		b.t.Fatal(err)
	}
}

// certify gives rome's Identity in milan a certificate.
func (b *betweenClusters) certify(certificate []byte) {
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace("milan"), Name: authv1beta1.IdentityControlPlanePrefix + "milan"}}
	b.change("rome", identity, func() { identity.Spec.AuthParams.SignedCRT = certificate })
}

// betweenState is a fault in what two clusters know of each other. A fault that brokenStates has, too, has the same name.
type betweenState struct {
	name, how string
	begin     func(*betweenClusters)
	// first is the evidence, cure is how the cure below it begins.
	first, cure string
	// commands are those of the cure.
	commands []string
}

func betweenStates() []betweenState {
	ofRome := metav1.ObjectMeta{Namespace: api.TenantNamespace("rome"), Name: "rome"}
	const again = "liqoctl authenticate --remote-kubeconfig FILE, with the kubeconfig of cluster milan, gets another certificate; " +
		"without a kubeconfig of milan: run liqoctl generate peer-command --consumer-cluster-id rome there, and here the command that it prints"
	return []betweenState{
		{
			"a peer stores another key", "the PublicKey in the peer is not that of the gateway here",
			func(b *betweenClusters) {
				key := &networkingv1beta1.PublicKey{ObjectMeta: ofRome}
				b.change("milan", key, func() { key.Spec.PublicKey = bytes.Repeat([]byte{9}, network.KeyLength) })
			},
			"cluster milan stores another key than the gateway of rome has", "liqoctl network connect --remote-kubeconfig FILE",
			[]string{"network connect" + lawBoth},
		},
		{
			"a peer does not have the key", "the PublicKey in the peer is deleted",
			func(b *betweenClusters) {
				if err := b.clusters["milan"].client.Delete(b.t.Context(), &networkingv1beta1.PublicKey{ObjectMeta: ofRome}); err != nil {
					b.t.Fatal(err)
				}
			},
			"cluster milan does not have the key of the gateway of rome", "liqoctl network connect --remote-kubeconfig FILE",
			[]string{"network connect" + lawBoth},
		},
		{
			"a peer was told other ranges", "the Configuration in the peer has another pod range than this cluster",
			func(b *betweenClusters) {
				configuration := &networkingv1beta1.Configuration{ObjectMeta: ofRome}
				b.change("milan", configuration, func() { configuration.Spec.Remote.CIDR.Pod = []string{"10.9.0.0/16"} })
			},
			"Configuration rome in namespace liqo-tenant-rome says that the pod range of rome is 10.9.0.0/16, it is 10.1.0.0/16",
			"liqoctl network reset --remote-kubeconfig FILE (its traffic stops), then liqoctl network connect --remote-kubeconfig FILE",
			[]string{"network reset --skip-confirm" + lawBoth, "network connect --wait" + lawBoth},
		},
		{
			"a provider has no network with the cluster", "the networks of the clusters are not connected, and pods of a namespace are offloaded there",
			func(b *betweenClusters) {
				b.begin(b.in(b.t, b.peered, "network reset --skip-confirm"+lawBoth, nil).left)
			},
			"cluster milan has no network with this cluster: there is no Configuration and no Connection", "liqoctl network connect --remote-kubeconfig FILE",
			[]string{"network connect --wait" + lawBoth},
		},
		{
			"a tenant is drained", "",
			func(b *betweenClusters) {
				b.begin(b.in(b.t, b.peered, "drain tenant rome --skip-confirm --kubeconfig %milan", nil).left)
			},
			"Tenant rome in namespace liqo-tenant-rome is drained: it may do nothing", "liqoctl activate tenant rome",
			[]string{"activate tenant rome --kubeconfig %milan"},
		},
		{
			"a tenant is not admitted", "",
			func(b *betweenClusters) {
				tenant := &authv1beta1.Tenant{ObjectMeta: ofRome}
				b.change("milan", tenant, func() {
					tenant.Spec.Signature = []byte("of another key")
					tenant.Status.Conditions = []metav1.Condition{{
						Type: kube.ConditionReady, Status: metav1.ConditionFalse, Reason: "BadSignature", Message: "the signature is of another key",
						ObservedGeneration: tenant.Generation + 1,
					}}
				})
			},
			"Tenant rome in namespace liqo-tenant-rome is not admitted: BadSignature, the signature is of another key",
			"the consumer does the handshake again with liqoctl authenticate", []string{"authenticate" + lawBoth},
		},
		{
			"a certificate has expired", "", func(b *betweenClusters) { b.certify(b.expired) },
			"Identity controlplane-milan in namespace liqo-tenant-milan: its certificate ended at", again, []string{"authenticate" + lawBoth},
		},
		{
			"a gateway dials a name without an address", "",
			func(b *betweenClusters) {
				gateway := &networkingv1beta1.GatewayClient{ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace("milan"), Name: "milan"}}
				b.change("rome", gateway, func() { gateway.Spec.Endpoint.Addresses = []string{"gw.milan.invalid"} })
				connections := &networkingv1beta1.ConnectionList{}
				if err := b.clusters["rome"].client.List(b.t.Context(), connections); err != nil || len(connections.Items) != 1 {
					b.t.Fatalf("%d connections, error %v", len(connections.Items), err)
				}
				connection := &connections.Items[0]
				b.change("rome", connection, func() { connection.Status.Value = networkingv1beta1.ConnectionError })
			},
			"GatewayClient milan in namespace liqo-tenant-milan dials gw.milan.invalid, which has no address here",
			"give gw.milan.invalid an address in DNS, or dial another address: liqoctl network connect --gw-client-address ADDRESS",
			[]string{"network connect --wait --gw-client-address 192.0.2.7" + lawBoth},
		},
	}
}

// TestCuresBetweenClusters breaks what two clusters know of each other. doctor, with access to both, prints the fault and its cure. Once the
// commands of the cure were executed, it prints what it printed before the fault.
func TestCuresBetweenClusters(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	// The clock of the commands begins in the year 2000.
	year := func(n int) time.Time { return time.Date(n, time.January, 1, 0, 0, 0, 0, time.UTC) }
	w := installedWorld(t)
	b := &betweenClusters{t: t, world: w, good: certificateFor(t, year(1999), year(2010)), expired: certificateFor(t, year(1998), year(1999))}
	const look = "doctor" + lawBoth
	w.begin(w.in(t, w.snapshot(), "peer"+lawBoth, nil).left)
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace("rome"), Name: "rome"}}
	b.change("milan", tenant, func() { tenant.Status.AuthParams.SignedCRT = b.good })
	b.certify(b.good)
	shop := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "offloading"}}
	clitest.Create(t, w.clusters["rome"].client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, shop)
	b.change("rome", shop, func() { shop.Status.OffloadingPhase = offloadingv1beta1.PhaseReady })
	b.peered = w.snapshot()
	healthy := w.in(t, b.peered, look, nil).out
	if !strings.Contains(healthy, "✔ agreement with milan") || !strings.Contains(healthy, "✔ agreement with rome") {
		t.Fatalf("before the first fault doctor prints\n%s", healthy)
	}
	for _, state := range betweenStates() {
		w.begin(b.peered)
		state.begin(b)
		at := w.snapshot()
		said := w.in(t, at, look, nil).out
		_, below, found := strings.Cut(said, state.first)
		_, cure, _ := strings.Cut(below, "cure: ")
		if !found || !strings.HasPrefix(cure, state.cure) {
			t.Errorf("%s: no %q with the cure %q in\n%s", state.name, state.first, state.cure, said)
			continue
		}
		for _, command := range state.commands {
			ran := w.in(t, at, command, nil)
			if ran.code != 0 {
				t.Errorf("%s: %s, code %d: %s%s", state.name, command, ran.code, ran.out, ran.said)
			}
			at = ran.left
		}
		if diff := cmp.Diff(healthy, w.in(t, at, look, nil).out); diff != "" {
			t.Errorf("%s: after the cure doctor prints (-before +after):\n%s", state.name, diff)
		}
	}
}
