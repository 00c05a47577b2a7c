package installer

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestUserRoles: every verb that the chart adds to Kubernetes' own roles. The administrator of a namespace offloads it, and nobody gets a right on an object
// that is in tenant namespaces, where the Secrets of peerings are, or that has no namespace.
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

// aggregated are the verbs by resource of each role of Kubernetes that users have, as far as ClusterRoles among the objects add to it.
func aggregated(t *testing.T, objects []*unstructured.Unstructured) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	var below []string // edit has what view has, and admin what both have: Kubernetes labels them so
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
