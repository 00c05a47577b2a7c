package installer

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestDiscoveryHasFewRights: the chart contains discovery only if it is enabled. Discovery uses the host network only for multicast, and may write
// only ForeignClusters. By default, the controller manager joins no discovered cluster.
func TestDiscoveryHasFewRights(t *testing.T) {
	for _, object := range render(t, minimal) {
		if object.GetName() == "liqo-discovery" {
			t.Errorf("%s liqo-discovery is there by default", object.GetKind())
		}
	}
	for text, host := range map[string]bool{
		"discovery: {config: {clusterID: rome, enableDiscovery: true}}":                 true,
		"discovery: {config: {clusterID: rome, enableAdvertisement: true}}":             true,
		"discovery: {config: {clusterID: rome, domains: [clusters.example.org]}}":       false,
		"discovery: {config: {clusterID: rome, enableDiscovery: true, domains: [a.b]}}": true,
	} {
		objects := render(t, text)
		spec, _, err := unstructured.NestedMap(find(t, objects, "Deployment", "liqo-discovery").Object, "spec", "template", "spec")
		if err != nil {
			t.Fatal(err)
		}
		if spec["hostNetwork"] != nil != host || spec["serviceAccountName"] != "liqo-discovery" {
			t.Errorf("%s: hostNetwork %v, account %v", text, spec["hostNetwork"], spec["serviceAccountName"])
		}
		var rights []string
		for _, kind := range []string{"ClusterRole", "Role"} {
			for _, object := range objects {
				if object.GetKind() != kind || object.GetName() != "liqo-discovery" {
					continue
				}
				rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
				for _, rule := range rules {
					resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
					verbs, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
					for _, verb := range verbs {
						rights = append(rights, verb+" "+resources[0])
					}
				}
			}
		}
		slices.Sort(rights)
		want := []string{"create foreignclusters", "delete foreignclusters", "list foreignclusters", "patch foreignclusters"}
		if strings.Contains(text, "enableAdvertisement") { // to announce the address of the authentication service
			want = append(want, "get services", "list nodes")
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, rights); diff != "" {
			t.Errorf("%s: what it may do (-want +got):\n%s", text, diff)
		}
		find(t, objects, "ValidatingAdmissionPolicy", "liqo-discovery")
		find(t, objects, "ValidatingAdmissionPolicyBinding", "liqo-discovery")
	}
	for text, want := range map[string]string{
		minimal: "", "discovery: {config: {clusterID: rome, autojoin: true}}": "--auto-join=*",
		"discovery: {config: {clusterID: rome, autojoin: true, autojoinClusters: [lab-*, milan]}}": "--auto-join=lab-*,milan",
	} {
		manager := find(t, render(t, text), "Deployment", "liqo-controller-manager")
		containers, _, err := unstructured.NestedSlice(manager.Object, "spec", "template", "spec", "containers")
		if err != nil {
			t.Fatal(err)
		}
		args, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		got := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--auto-join") })
		if (got >= 0) != (want != "") || want != "" && args[got] != want {
			t.Errorf("%s: %v, want %q", text, args, want)
		}
	}
}
