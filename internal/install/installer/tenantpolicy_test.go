package installer

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestTenantsDoNotConsentForTheProvider: policy liqo-tenant watches each annotation of a Tenant by which an administrator of the provider decides.
func TestTenantsDoNotConsentForTheProvider(t *testing.T) {
	policy := find(t, render(t, minimal), "ValidatingAdmissionPolicy", "liqo-tenant")
	variables, _, err := unstructured.NestedSlice(policy.Object, "spec", "variables")
	if err != nil {
		t.Fatal(err)
	}
	var watched string
	for _, variable := range variables {
		if variable := variable.(map[string]any); variable["name"] == "decisions" {
			watched = variable["expression"].(string)
		}
	}
	for _, annotation := range []string{"liqo.io/cordon", "liqo.io/delete-volumes", "liqo.io/claimed-cluster-id"} {
		if !strings.Contains(watched, "'"+annotation+"'") {
			t.Errorf("a peering user may change annotation %s of its Tenant: %q", annotation, watched)
		}
	}
}
