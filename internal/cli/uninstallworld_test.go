package cli

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/test/clitest"
)

// TestUninstallInMemory: an uninstall removes the programs and keeps the custom resources; a purge leaves the cluster as it was before the installation.
func TestUninstallInMemory(t *testing.T) {
	w := emptyWorld(t)
	empty := w.snapshot()
	installed := w.inCluster(t, empty, lawInstall, nil).left
	w.begin(installed)
	clitest.Create(t, w.clusters["rome"].client, &authv1beta1.Renew{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "left", Finalizers: []string{"liqo.io/kept"}}})
	used := w.snapshot()

	dry := w.inCluster(t, used, "uninstall --purge --dry-run"+lawOne, nil)
	for _, want := range []string{"Helm release in namespace liqo, with its ", "CustomResourceDefinition renews.authentication.liqo.io", "Namespace liqo"} {
		if dry.code != 0 || !strings.Contains(dry.said, want) {
			t.Errorf("dry run, code %d, want %q: %s", dry.code, want, dry.said)
		}
	}
	if changed := differentObjects(used, dry.left); len(changed) > 0 {
		t.Errorf("the dry run changed %v", changed)
	}

	kept := w.inCluster(t, used, "uninstall --skip-confirm"+lawOne, nil)
	if kept.code != 0 || !strings.Contains(kept.said, "Liqo correctly uninstalled") {
		t.Fatalf("code %d: %s", kept.code, kept.said)
	}
	if kept.left.object(keyManager) != nil || len(kept.left.keys(keyRelease)) > 0 || len(kept.left.keys(keyLock)) > 0 {
		t.Errorf("left: %v", differentObjects(empty, kept.left))
	}
	if kept.left.object(keyNamespace) == nil || !slices.Equal(kept.left.keys(keyDefinitions), used.keys(keyDefinitions)) {
		t.Error("the namespace or the definitions are deleted without --purge")
	}
	renew := kept.left.object("authentication.liqo.io/v1beta1/renews default/left")
	if renew == nil || nested(renew, "metadata")["finalizers"] != nil {
		t.Errorf("a custom resource is left as %v", renew)
	}

	purged := w.inCluster(t, used, "uninstall --purge --skip-confirm"+lawOne, nil)
	if purged.code != 0 || !strings.Contains(purged.said, "Custom resource definitions, namespaces and leftovers correctly removed") {
		t.Fatalf("purge, code %d: %s", purged.code, purged.said)
	}
	for _, key := range differentObjects(empty, purged.left) {
		if key != "rome authentication.liqo.io/v1beta1/renews default/left" { // a real API server deletes it with its definition
			t.Errorf("the purge leaves %s", key)
		}
	}
}
