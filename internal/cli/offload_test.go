package cli

import (
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/test/clitest"
)

// TestOffloadProtectedOnAPIServer: a protected namespace is refused before anything is written, with the same message by name, by label, in a dry
// run and for printed manifests.
func TestOffloadProtectedOnAPIServer(t *testing.T) {
	t.Parallel()
	kubeconfig, c := server(t)
	manager := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: session.ControllerManager}, manager); err != nil {
		t.Fatal(err)
	}
	manager.Spec.Template.Spec.Containers[0].Args = append(manager.Spec.Template.Spec.Containers[0].Args, "--protected-namespaces=vault,*-secrets")
	if err := c.Update(t.Context(), manager); err != nil {
		t.Fatal(err)
	}
	team := map[string]string{"team": "blue"}
	clitest.Create(t, c,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: team}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-secrets", Labels: team}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{api.LabelTenantNamespace: api.True}}})
	for namespace, why := range map[string]string{
		"liqo":         "Liqo is installed there, its Secrets hold the private keys of this cluster",
		"milan":        "it is the tenant namespace of a peering, its Secrets hold the private keys of the peering",
		"kube-system":  "it belongs to Kubernetes, its ServiceAccounts control this cluster",
		"shop-secrets": "chart value offloading.protectedNamespaces of this cluster contains *-secrets",
	} {
		for _, command := range []string{"offload namespace shop " + namespace, "offload namespace --ns-selector kubernetes.io/metadata.name=" + namespace} {
			for _, way := range []string{"", " --dry-run", " -o yaml"} {
				code, out, errOut := run(t, append(strings.Fields(command+way), "--kubeconfig", kubeconfig)...)
				if want := "namespace " + namespace + " can not be offloaded: " + why; code != 1 || out != "" || !strings.Contains(errOut, want) {
					t.Errorf("%s%s: code %d, %s%s", command, way, code, out, errOut)
				}
			}
		}
	}
	_, _, errOut := run(t, "offload", "namespace", "--ns-selector", "team=blue", "--kubeconfig", kubeconfig)
	if want := "--ns-selector 'team=blue,kubernetes.io/metadata.name notin (shop-secrets)'"; !strings.Contains(errOut, want) {
		t.Errorf("%s, want %s", errOut, want)
	}
	var offloadings offloadingv1beta1.NamespaceOffloadingList
	if err := c.List(t.Context(), &offloadings); err != nil || len(offloadings.Items) > 0 {
		t.Errorf("%v, offloaded: %v", err, offloadings.Items)
	}
	code, out, errOut := run(t, "offload", "namespace", "--ns-selector", "team=blue,kubernetes.io/metadata.name notin (shop-secrets)", "-o", "yaml", "--kubeconfig", kubeconfig)
	if code != 0 || !strings.Contains(out, "namespace: shop\n") {
		t.Errorf("the cure: code %d, %s%s", code, out, errOut)
	}
}

// TestOffloadAgainOnAPIServer: settings that are not on the command line stay, and remote namespaces are deleted only after a confirmation.
func TestOffloadAgainOnAPIServer(t *testing.T) {
	t.Parallel()
	kubeconfig, c := server(t)
	node := func(cluster, region string) *offloadingv1beta1.VirtualNode {
		return &offloadingv1beta1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: cluster, Labels: map[string]string{"region": region}},
			Spec:       offloadingv1beta1.VirtualNodeSpec{ClusterID: cluster, KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "x"}},
		}
	}
	object := &offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "offloading"},
		Spec: offloadingv1beta1.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: offloadingv1beta1.EnforceSameName, PodOffloadingStrategy: offloadingv1beta1.PodsRemote,
		},
	}
	clitest.Create(t, c, node("milan", "north"), node("naples", "south"), object)
	object.Status.RemoteNamespacesConditions = map[string][]offloadingv1beta1.RemoteNamespaceCondition{}
	for _, id := range []string{"milan", "naples"} {
		object.Status.RemoteNamespacesConditions[id] = []offloadingv1beta1.RemoteNamespaceCondition{{
			Type: offloadingv1beta1.RemoteNamespaceRequired, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		}}
	}
	if err := c.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	spec := func() offloadingv1beta1.NamespaceOffloadingSpec {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		return object.Spec
	}
	// No controller answers, so each command ends with its timeout. It includes the write, for which a busy machine needs more than half a second.
	liqoctl := func(args ...string) (int, string) {
		code, out, errOut := run(t, append([]string{"offload", "namespace", "default", "--timeout", "2s", "--kubeconfig", kubeconfig}, args...)...)
		return code, out + errOut
	}
	question := "Stop offloading default from cluster naples?"
	if code, said := liqoctl("-l", "region=north"); code != 1 || !strings.Contains(said, question) || !strings.Contains(said, "not confirmed: nothing was changed") {
		t.Errorf("unconfirmed: code %d, %s", code, said)
	}
	if _, said := liqoctl(); !strings.Contains(said, "Namespace default is offloaded. Commands and manifests without a namespace use it") {
		t.Errorf("no warning about namespace default: %s", said)
	}
	if s := spec(); s.ClusterSelector != nil {
		t.Errorf("without a confirmation the selector became %v", s.ClusterSelector)
	}
	if _, said := liqoctl("-l", "region in (north,south)"); strings.Contains(said, "[y/N]") || spec().ClusterSelector == nil {
		t.Errorf("a selector that leaves out nothing: %s", said)
	}
	if _, said := liqoctl("-l", "region=north", "--skip-confirm"); strings.Contains(said, "[y/N]") {
		t.Errorf("confirmed by a flag: %s", said)
	}
	s := spec()
	if s.ClusterSelector == nil || s.ClusterSelector.NodeSelectorTerms[0].MatchExpressions[0].Values[0] != "north" ||
		s.PodOffloadingStrategy != offloadingv1beta1.PodsRemote || s.NamespaceMappingStrategy != offloadingv1beta1.EnforceSameName {
		t.Errorf("after a new selector: %+v", s)
	}
	if liqoctl("--pod-offloading-strategy", "Local"); spec().PodOffloadingStrategy != offloadingv1beta1.PodsLocal || spec().ClusterSelector == nil {
		t.Errorf("after a new strategy: %+v", spec())
	}
	if liqoctl("-l", ""); spec().ClusterSelector != nil || spec().PodOffloadingStrategy != offloadingv1beta1.PodsLocal {
		t.Errorf("with all clusters again: %+v", spec())
	}
	if liqoctl(); spec().PodOffloadingStrategy != offloadingv1beta1.PodsLocal {
		t.Errorf("with nothing on the command line: %+v", spec())
	}
}

// TestOffloadRefusesProtectedNamespaces: namespaces that control the cluster are refused by name and by label, before any change and in the same
// words in a dry run.
func TestOffloadRefusesProtectedNamespaces(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	at := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	for command, says := range map[string]string{
		"offload namespace kube-system":                                                      "namespace kube-system can not be offloaded: it belongs to Kubernetes",
		"offload namespace demo liqo":                                                        "namespace liqo can not be offloaded: Liqo is installed there",
		"offload namespace liqo-tenant-milan":                                                "namespace liqo-tenant-milan can not be offloaded: it is the tenant namespace of a peering",
		"offload namespace --ns-selector " + corev1.LabelMetadataName + "!=default":          "namespace kube-system can not be offloaded: it belongs to Kubernetes",
		"offload namespace --ns-selector " + api.LabelTenantNamespace + "=true --timeout 1s": "namespace liqo-tenant-milan can not be offloaded: it is the tenant namespace of a peering",
	} {
		for _, command := range []string{command, command + " --dry-run"} {
			if ran := w.in(t, at, command+lawOne, nil); ran.code != 1 || ran.wrote != 0 || !strings.Contains(ran.said, says) {
				t.Errorf("%s: code %d, %d changes, no %q in %s", command, ran.code, ran.wrote, says, ran.said)
			}
		}
	}
}

// TestOffloadAgain: on an offloaded namespace, a selector that leaves out a cluster deletes nothing there without a confirmation, and settings that
// the command line does not name stay.
func TestOffloadAgain(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	peered := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	first := w.in(t, peered, "offload namespace demo --namespace-mapping-strategy EnforceSameName --pod-offloading-strategy Remote"+lawOne, nil)
	if first.code != 0 {
		t.Fatalf("code %d: %s", first.code, first.said)
	}
	w.begin(first.left)
	c, object := w.clusters["rome"].client, &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: offloadingv1beta1.NamespaceOffloadingName}}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	object.Status.RemoteNamespacesConditions = map[string][]offloadingv1beta1.RemoteNamespaceCondition{"milan": {
		{Type: offloadingv1beta1.RemoteNamespaceRequired, Status: corev1.ConditionTrue}, {Type: offloadingv1beta1.RemoteNamespaceReady, Status: corev1.ConditionTrue},
	}}
	if err := c.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	offloaded := w.snapshot()
	const again = "offload namespace demo --selector region=nowhere"
	asked := w.in(t, offloaded, again+lawOne, nil)
	if want := "Stop offloading demo from cluster milan?"; asked.code != 1 || asked.wrote != 0 || !strings.Contains(asked.said, want) || !strings.Contains(asked.said, "nothing was changed") {
		t.Errorf("code %d, %d changes, no %q in %s", asked.code, asked.wrote, want, asked.said)
	}
	w.in(t, offloaded, again+" --skip-confirm"+lawOne, nil)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	if s := object.Spec; s.PodOffloadingStrategy != offloadingv1beta1.PodsRemote || s.NamespaceMappingStrategy != offloadingv1beta1.EnforceSameName || s.ClusterSelector == nil {
		t.Errorf("settings were reset: %+v", s)
	}
}
