package cli

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
)

// TestUpgradeOfNothing: without an installation, an upgrade is refused with the command that installs, and changes nothing.
func TestUpgradeOfNothing(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	w.begin(w.snapshot())
	if err := w.clusters["rome"].client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: api.ClusterIDConfigMap}}); err != nil {
		t.Fatal(err)
	}
	empty := w.snapshot()
	for _, command := range []string{"upgrade" + lawOne, "upgrade kubeadm" + lawOne, "upgrade --only-output-values --dump-values-path /dev/null" + lawOne} {
		ran := w.in(t, empty, command, nil)
		if want := "there is nothing to upgrade: liqo is not installed in namespace liqo"; ran.code != 1 || ran.wrote != 0 || !strings.Contains(ran.said, want) || !strings.Contains(ran.said, "liqoctl install") {
			t.Errorf("%s: code %d, %d changes: %s", command, ran.code, ran.wrote, ran.said)
		}
	}
}

// TestNothingToDelete: an object that does not exist is reported as not found, not as deleted.
func TestNothingToDelete(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	peered := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	first := w.in(t, peered, "unpeer"+lawBoth, nil)
	if first.code != 0 || !strings.Contains(first.said, "Tenant rome in namespace liqo-tenant-rome correctly deleted") {
		t.Fatalf("code %d: %s", first.code, first.said)
	}
	again := w.in(t, first.left, "unpeer"+lawBoth, nil)
	if again.code != 0 || !strings.Contains(again.said, "Tenant rome in namespace liqo-tenant-rome not found: nothing to delete") || strings.Contains(again.said, "correctly deleted") {
		t.Errorf("again: code %d: %s", again.code, again.said)
	}
}
