package installer

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"liqo.io/liqo/internal/peering"
)

// TestUserRoles: this is the list of the verbs that the chart adds to Kubernetes' own roles. The administrator of a namespace can offload it. No role
// gives access to objects in tenant namespaces, which contain the Secrets of peerings, or to cluster-scoped objects.
func TestUserRoles(t *testing.T) {
	const read = "get list watch"
	seen := map[string]string{"namespaceoffloadings": read, "shadowpods": read, "shadowendpointslices": read}
	administered := maps.Clone(seen)
	administered["namespaceoffloadings"] = "create delete get list patch update watch"
	for text, want := range map[string]map[string]map[string]string{
		minimal: {"view": seen, "edit": seen, "admin": administered},
		minimal + "\noffloading: {namespaceRoles: {enabled: false}}": {"view": {}, "edit": {}, "admin": {}},
		minimal + "\noffloading: {enabled: false}":                   {"view": {}, "edit": {}, "admin": {}},
	} {
		if diff := cmp.Diff(want, aggregated(t, render(t, text))); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// aggregated returns, for the roles view, edit and admin, the verbs by resource that ClusterRoles among the objects add to them.
func aggregated(t *testing.T, objects []*unstructured.Unstructured) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	var below []string // edit includes view, and admin includes both, so the labels of the lower roles count too
	for _, role := range []string{"view", "edit", "admin"} {
		below = append(below, "rbac.authorization.k8s.io/aggregate-to-"+role)
		verbs := map[string]map[string]bool{}
		for _, object := range objects {
			adds := slices.ContainsFunc(below, func(label string) bool { return object.GetLabels()[label] == "true" })
			if object.GetKind() != "ClusterRole" || !adds {
				continue
			}
			rules, _, err := unstructured.NestedSlice(object.Object, "rules")
			if err != nil {
				t.Fatal(err)
			}
			for _, rule := range rules {
				resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
				allowed, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
				for _, resource := range resources {
					for _, verb := range allowed {
						if verbs[resource] == nil {
							verbs[resource] = map[string]bool{}
						}
						verbs[resource][verb] = true
					}
				}
			}
		}
		out[role] = map[string]string{}
		for resource, all := range verbs {
			out[role][resource] = strings.Join(slices.Sorted(maps.Keys(all)), " ")
		}
	}
	return out
}

// TestEveryKindOfPeersIsBounded: the default quota of remote namespaces has the number of objects of each kind that a peer may create there.
func TestEveryKindOfPeersIsBounded(t *testing.T) {
	objects := render(t, minimal+"\noffloading: {networkPolicies: {accept: true}}")
	containers, _, err := unstructured.NestedSlice(find(t, objects, "Deployment", "liqo-controller-manager").Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("containers %v: %v", containers, err)
	}
	args, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	bounded := map[string]string{}
	for _, arg := range args {
		list, _ := strings.CutPrefix(arg, "--namespace-quota=")
		for pair := range strings.SplitSeq(list, ",") {
			key, value, _ := strings.Cut(pair, "=")
			bounded[key] = value
		}
	}
	rules, _, _ := unstructured.NestedSlice(find(t, objects, "ClusterRole", "liqo-virtual-kubelet-remote").Object, "rules")
	for _, rule := range rules {
		groups, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "apiGroups")
		resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
		verbs, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
		for _, group := range groups {
			for _, resource := range resources {
				key := strings.TrimSuffix("count/"+resource+"."+group, ".")
				if contains(verbs, "create") && !strings.Contains(resource, "/") && bounded[key] == "" {
					t.Errorf("a peer may create %s without limit: %s is not in %v", resource, key, bounded)
				}
			}
		}
	}
}

// TestEveryKindInATenantNamespaceIsBounded: the quota of tenant namespaces has the number of objects of each kind that a consumer may create there.
func TestEveryKindInATenantNamespaceIsBounded(t *testing.T) {
	bounded := peering.TenantObjects()
	rules, _, _ := unstructured.NestedSlice(find(t, render(t, minimal), "ClusterRole", peering.RoleControlPlane).Object, "rules")
	kinds := 0
	for _, rule := range rules {
		groups, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "apiGroups")
		resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
		verbs, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
		for _, group := range groups {
			for _, resource := range resources {
				if !contains(verbs, "create") || strings.Contains(resource, "/") {
					continue
				}
				kinds++
				if key := strings.TrimSuffix("count/"+resource+"."+group, "."); bounded[key] == 0 {
					t.Errorf("a consumer may create %s without limit: %s is not in %v", resource, key, bounded)
				}
			}
		}
	}
	if kinds < 4 {
		t.Errorf("the consumer may create %d kinds: the test does not see its rules", kinds)
	}
}
