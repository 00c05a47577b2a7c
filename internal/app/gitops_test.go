package app

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	charts "liqo.io/liqo/charts/liqo"
	"liqo.io/liqo/internal/install/definitions"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/test/apitest"
)

// installation returns all objects of an installation, rendered without access to the cluster, as GitOps tools do.
func installation(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	chart, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := installer.Render(chart, "liqo", map[string]any{
		"discovery": map[string]any{"config": map[string]any{"clusterID": "rome"}},
		"ipam":      map[string]any{"podCIDRs": []any{"10.42.0.0/16"}, "serviceCIDR": "10.43.0.0/16"},
	})
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(manifest, "\n---\n")
	files, err := fs.ReadDir(charts.Files, charts.CRDs)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(charts.Files, path.Join(charts.CRDs, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(text))
	}
	out := []*unstructured.Unstructured{{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "liqo"}}}}
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			out = append(out, object)
		}
	}
	return out
}

// applied tries to apply all objects once, and returns those that the API server did not accept. An object whose namespace or definition is missing
// can be tried again. The test fails if an object is refused for another reason.
func applied(t *testing.T, c client.Client, objects []*unstructured.Unstructured) (again []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("gitops"), client.ForceOwnership)
		switch {
		case err == nil:
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			again = append(again, object)
		default:
			t.Fatalf("applying %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	return again
}

// TestInstallationInAnyOrderOnAPIServer: tools that do not know Liqo can apply the objects of the chart in any order, before any controller of Liqo
// runs.
func TestInstallationInAnyOrderOnAPIServer(t *testing.T) {
	_, config := apitest.Environment(t)
	c := apitest.Client(t, config)
	objects := installation(t)
	gone(t, c)
	for seed := range uint64(2) {
		rest := slices.Clone(objects)
		rounds := 0
		apitest.Eventually(t, time.Minute, "everything to be accepted", func() error {
			rand.New(rand.NewPCG(seed, uint64(rounds))).Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
			rest = applied(t, c, rest)
			rounds++
			if len(rest) > 0 {
				return fmt.Errorf("order %d, round %d: %d objects wait, %s %s among them", seed, rounds, len(rest), rest[0].GetKind(), rest[0].GetName())
			}
			return nil
		})
		if seed == 0 {
			for _, object := range objects {
				if object.GetKind() != "Namespace" && object.GetKind() != "CustomResourceDefinition" {
					if err := c.Delete(t.Context(), object.DeepCopy()); client.IgnoreNotFound(err) != nil {
						t.Fatal(err)
					}
				}
			}
			gone(t, c)
		}
	}
	t.Run("definitions of another version", func(t *testing.T) { testDefinitions(t, c, config) })
}

// gone deletes the CRDs and waits until they no longer exist.
func gone(t *testing.T, c client.Client) {
	t.Helper()
	if err := c.DeleteAllOf(t.Context(), &apiextensionsv1.CustomResourceDefinition{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, time.Minute, "definitions to be gone", func() error {
		var list apiextensionsv1.CustomResourceDefinitionList
		if err := c.List(t.Context(), &list); err != nil || len(list.Items) > 0 {
			return errors.Join(err, fmt.Errorf("%d definitions are left", len(list.Items)))
		}
		return nil
	})
}

// testDefinitions runs the Job that the chart runs before an upgrade.
func testDefinitions(t *testing.T, c client.Client, config *rest.Config) {
	key, lost := client.ObjectKey{Name: "quotas.offloading.liqo.io"}, client.ObjectKey{Name: "renews.authentication.liqo.io"}
	var quotas, renews apiextensionsv1.CustomResourceDefinition
	if err := errors.Join(c.Get(t.Context(), key, &quotas), c.Get(t.Context(), lost, &renews)); err != nil {
		t.Fatal(err)
	}
	wanted := quotas.Spec.DeepCopy()
	quotas.Labels = map[string]string{"team": "blue"}
	quotas.Spec.Versions[0].AdditionalPrinterColumns = nil
	delete(quotas.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties, "spec")
	if err := errors.Join(c.Update(t.Context(), &quotas), c.Delete(t.Context(), &renews)); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, time.Minute, "the definitions to be of this version", func() error {
		if err := definitions.Apply(t.Context(), config); err != nil {
			return err
		}
		return errors.Join(c.Get(t.Context(), key, &quotas), c.Get(t.Context(), lost, &renews))
	})
	if !apiEqual(wanted, &quotas.Spec) || quotas.Labels["team"] != "blue" {
		t.Errorf("%s is %+v with labels %v", key.Name, quotas.Spec, quotas.Labels)
	}
}

// apiEqual compares two definitions of a kind.
func apiEqual(a, b *apiextensionsv1.CustomResourceDefinitionSpec) bool {
	first, errA := yaml.Marshal(a)
	second, errB := yaml.Marshal(b)
	return errA == nil && errB == nil && string(first) == string(second)
}
