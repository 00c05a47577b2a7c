package cli

import (
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clitest"
)

// TestNamespacesWithDataOfOthersStay: no command deletes a namespace of Liqo while it holds a claim or a workload of others, and each names both, and the cure.
func TestNamespacesWithDataOfOthersStay(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	peered := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	at := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	with := func(cluster string, objects ...client.Object) worldSnapshot {
		w.begin(peered)
		clitest.Create(t, w.clusters[cluster].client, objects...)
		return w.snapshot()
	}
	const stays = " stays, because it holds "
	const cure = ", and maybe more (kubectl get "
	claim := with("rome", &corev1.PersistentVolumeClaim{ObjectMeta: at("liqo-tenant-milan", "data")})
	workload := with("milan", &appsv1.StatefulSet{ObjectMeta: at("liqo-tenant-rome", "db")})
	for _, test := range []struct {
		command string
		at      worldSnapshot
		want    string
	}{
		{"force unpeer milan --skip-confirm" + lawOne, claim, "liqo-tenant-milan" + stays + "PersistentVolumeClaim data" + cure},
		{"unpeer --delete-namespaces" + lawBoth, claim, "liqo-tenant-milan" + stays + "PersistentVolumeClaim data" + cure},
		{"unpeer --delete-namespaces" + lawBoth, workload, "liqo-tenant-rome" + stays + "StatefulSet db" + cure},
		{"unpeer milan --delete-namespaces" + lawOne, claim, "liqo-tenant-milan" + stays + "PersistentVolumeClaim data" + cure},
	} {
		ran := w.in(t, test.at, test.command, nil)
		if ran.code != 1 || !strings.Contains(ran.said, test.want) {
			t.Errorf("%s: code %d, no %q: %s", test.command, ran.code, test.want, ran.said)
		}
		if changed := differentObjects(test.at, ran.left); len(changed) > 0 {
			t.Errorf("%s changed %v", test.command, changed)
		}
	}
}

// TestAPurgeKeepsDataOfOthers: a purge keeps the namespace of the installation if it holds a claim or a workload of others, and removes the finalizers of no
// other program.
func TestAPurgeKeepsDataOfOthers(t *testing.T) {
	w := emptyWorld(t)
	installed := w.inCluster(t, w.snapshot(), lawInstall, nil).left
	w.begin(installed)
	at := metav1.ObjectMeta{Namespace: "liqo", Name: "theirs"}
	held := metav1.ObjectMeta{Namespace: "liqo", Name: "held", Finalizers: []string{"crdreplicator.liqo.io/resource", "example.com/kept"}}
	clitest.Create(t, w.clusters["rome"].client, &corev1.PersistentVolumeClaim{ObjectMeta: at}, &appsv1.Deployment{ObjectMeta: at}, &corev1.Secret{ObjectMeta: held})
	const want = "namespace liqo stays, because it holds PersistentVolumeClaim theirs, Deployment theirs, and maybe more"
	used := w.snapshot()
	if dry := w.inCluster(t, used, "uninstall --purge --dry-run"+lawOne, nil); dry.code != 0 || !strings.Contains(dry.said, want) || strings.Contains(dry.said, "Namespace liqo\n") {
		t.Errorf("dry run, code %d: %s", dry.code, dry.said)
	}
	purged := w.inCluster(t, used, "uninstall --purge --skip-confirm"+lawOne, nil)
	if purged.code != 0 || !strings.Contains(purged.said, want) || !strings.Contains(purged.said, "leftovers correctly removed. Kept: namespaces liqo, see above") {
		t.Errorf("code %d, no %q: %s", purged.code, want, purged.said)
	}
	for _, key := range []string{"/v1/persistentvolumeclaims liqo/theirs", "apps/v1/deployments liqo/theirs", keyNamespace} {
		if purged.left.object(key) == nil {
			t.Errorf("%s is gone", key)
		}
	}
	secret := purged.left.object("/v1/secrets liqo/held")
	if secret == nil {
		t.Fatal("the Secret is gone")
	}
	if left, ok := nested(secret, "metadata")["finalizers"].([]any); !ok || len(left) != 1 || left[0] != "example.com/kept" {
		t.Errorf("finalizers %v", nested(secret, "metadata")["finalizers"])
	}
	if definitions := purged.left.keys(keyDefinitions); len(definitions) > 0 {
		t.Errorf("left: %v", definitions)
	}
}
