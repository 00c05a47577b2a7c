package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
)

// TestCuresBetweenClusters breaks what two clusters know of each other. doctor, with access to both, prints the fault and its cure. Once the commands of the
// cure were executed, it prints what it printed before the fault.
func TestCuresBetweenClusters(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	peered := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	const look = "doctor" + lawBoth
	change := func(cluster string, object client.Object, to func()) {
		t.Helper()
		if err := w.clusters[cluster].client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		to()
		status := object.DeepCopyObject().(client.Object)
		if err := w.clusters[cluster].client.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		status.SetResourceVersion(object.GetResourceVersion())
		if err := w.clusters[cluster].client.Status().Update(t.Context(), status); err != nil {
			t.Fatal(err)
		}
	}
	// What milan has of rome, and rome of milan.
	ofRome := metav1.ObjectMeta{Namespace: api.TenantNamespace("rome"), Name: "rome"}
	ofMilan := metav1.ObjectMeta{Namespace: api.TenantNamespace("milan"), Name: authv1beta1.IdentityControlPlanePrefix + "milan"}
	// The clock of the commands begins in the year 2000.
	year := func(n int) time.Time { return time.Date(n, time.January, 1, 0, 0, 0, 0, time.UTC) }
	good, expired := certificateFor(t, year(1999), year(2010)), certificateFor(t, year(1998), year(1999))
	w.begin(peered)
	tenant, identity := &authv1beta1.Tenant{ObjectMeta: ofRome}, &authv1beta1.Identity{ObjectMeta: ofMilan}
	change("milan", tenant, func() { tenant.Status.AuthParams.SignedCRT = good })
	change("rome", identity, func() { identity.Spec.AuthParams.SignedCRT = good })
	peered = w.snapshot()
	healthy := w.in(t, peered, look, nil).out
	if !strings.Contains(healthy, "✔ agreement with milan") || !strings.Contains(healthy, "✔ agreement with rome") {
		t.Fatalf("before the first fault doctor prints\n%s", healthy)
	}
	for name, row := range map[string]struct {
		fault func()
		// says is the evidence, cure is what doctor prints below it.
		says, cure string
		// commands are those of the cure.
		commands []string
	}{
		"another key": {
			func() {
				key := &networkingv1beta1.PublicKey{ObjectMeta: ofRome}
				change("milan", key, func() { key.Spec.PublicKey = bytes.Repeat([]byte{9}, network.KeyLength) })
			},
			"cluster milan was told another key than the gateway of rome has", "liqoctl network connect --remote-kubeconfig FILE",
			[]string{"network connect" + lawBoth},
		},
		"no key": {
			func() {
				if err := w.clusters["milan"].client.Delete(t.Context(), &networkingv1beta1.PublicKey{ObjectMeta: ofRome}); err != nil {
					t.Fatal(err)
				}
			},
			"cluster milan was not told the key of the gateway of rome", "liqoctl network connect --remote-kubeconfig FILE",
			[]string{"network connect" + lawBoth},
		},
		"other ranges": {
			func() {
				configuration := &networkingv1beta1.Configuration{ObjectMeta: ofRome}
				change("milan", configuration, func() { configuration.Spec.Remote.CIDR.Pod = []string{"10.9.0.0/16"} })
			},
			"Configuration rome in namespace liqo-tenant-rome says that the pod range of rome is 10.9.0.0/16, it is 10.1.0.0/16",
			"liqoctl network reset --remote-kubeconfig FILE (its traffic stops), then liqoctl network connect --remote-kubeconfig FILE",
			[]string{"network reset --skip-confirm" + lawBoth, "network connect --wait" + lawBoth},
		},
		"a drained tenant": {
			func() { w.begin(w.in(t, peered, "drain tenant rome --skip-confirm --kubeconfig %milan", nil).left) },
			"Tenant rome in namespace liqo-tenant-rome is drained: it may do nothing", "liqoctl activate tenant rome",
			[]string{"activate tenant rome --kubeconfig %milan"},
		},
		"a tenant that is not admitted": {
			func() {
				tenant := &authv1beta1.Tenant{ObjectMeta: ofRome}
				change("milan", tenant, func() {
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
		"an expired certificate": {
			func() {
				identity := &authv1beta1.Identity{ObjectMeta: ofMilan}
				change("rome", identity, func() { identity.Spec.AuthParams.SignedCRT = expired })
			},
			"Identity controlplane-milan in namespace liqo-tenant-milan: its certificate ended at",
			"liqoctl authenticate --remote-kubeconfig FILE, with the kubeconfig of cluster milan, gets another certificate", []string{"authenticate" + lawBoth},
		},
	} {
		w.begin(peered)
		row.fault()
		at := w.snapshot()
		said := w.in(t, at, look, nil).out
		_, below, found := strings.Cut(said, row.says)
		_, cure, _ := strings.Cut(below, "cure: ")
		if !found || !strings.HasPrefix(cure, row.cure) {
			t.Errorf("%s: no %q with the cure %q in\n%s", name, row.says, row.cure, said)
			continue
		}
		for _, command := range row.commands {
			ran := w.in(t, at, command, nil)
			if ran.code != 0 {
				t.Errorf("%s: %s, code %d: %s%s", name, command, ran.code, ran.out, ran.said)
			}
			at = ran.left
		}
		if diff := cmp.Diff(healthy, w.in(t, at, look, nil).out); diff != "" {
			t.Errorf("%s: after the cure doctor prints (-before +after):\n%s", name, diff)
		}
	}
}
