package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network"
)

// TestCuresBetweenClusters breaks what two clusters know of each other. doctor, with access to both, prints the fault and its cure. Once the commands of the
// cure were executed, it prints what it printed before the fault.
func TestCuresBetweenClusters(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	peered := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	const look = "doctor" + lawBoth
	healthy := w.in(t, peered, look, nil).out
	if !strings.Contains(healthy, "✔ agreement with milan") || !strings.Contains(healthy, "✔ agreement with rome") {
		t.Fatalf("before the first fault doctor prints\n%s", healthy)
	}
	milan := w.clusters["milan"].client
	change := func(object client.Object, to func()) {
		t.Helper()
		object.SetNamespace(api.TenantNamespace("rome"))
		object.SetName("rome")
		if err := milan.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		to()
		if err := milan.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
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
				key := &networkingv1beta1.PublicKey{}
				change(key, func() { key.Spec.PublicKey = bytes.Repeat([]byte{9}, network.KeyLength) })
			},
			"cluster milan was told another key than the gateway of rome has", "liqoctl network connect --remote-kubeconfig FILE",
			[]string{"network connect" + lawBoth},
		},
		"no key": {
			func() {
				key := &networkingv1beta1.PublicKey{}
				change(key, func() {})
				if err := milan.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			},
			"cluster milan was not told the key of the gateway of rome", "liqoctl network connect --remote-kubeconfig FILE",
			[]string{"network connect" + lawBoth},
		},
		"other ranges": {
			func() {
				configuration := &networkingv1beta1.Configuration{}
				change(configuration, func() { configuration.Spec.Remote.CIDR.Pod = []string{"10.9.0.0/16"} })
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
