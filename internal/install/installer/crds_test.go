package installer

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestDefinitionsOfEarlierReleases: the first field or version that an existing definition lacks of the one of the chart is found, at any depth. A definition with more
// fields, and one that keeps unknown fields, lacks nothing.
func TestDefinitionsOfEarlierReleases(t *testing.T) {
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	crds, err := CRDs(chart)
	if err != nil || len(crds) < 20 {
		t.Fatal(len(crds), err)
	}
	var wanted *apiextensionsv1.CustomResourceDefinition
	for _, crd := range crds {
		if lacked := Lacks(crd, crd); lacked != "" {
			t.Errorf("%s lacks %s of itself", crd.Name, lacked)
		}
		if crd.Name == "namespacemaps.offloading.liqo.io" {
			wanted = crd
		}
	}
	keep := true
	for name, row := range map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   string
	}{
		"a field": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			delete(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "releasedMapping")
		}, "field spec.releasedMapping of version v1beta1"},
		"a field in the values of a map": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			delete(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["currentMapping"].AdditionalProperties.Schema.Properties, "phase")
		}, "field status.currentMapping[].phase of version v1beta1"},
		"a version": {func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Name = "v1alpha1" }, "version v1beta1"},
		"a field more": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["more"] = apiextensionsv1.JSONSchemaProps{}
		}, ""},
		"unknown fields are kept": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: &keep}
		}, ""},
		"nothing is defined": {func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions = nil }, "version v1beta1"},
	} {
		have := wanted.DeepCopy()
		row.change(have)
		if lacked := Lacks(have, wanted); lacked != row.want {
			t.Errorf("%s: it lacks %q, not %q", name, lacked, row.want)
		}
	}
}
