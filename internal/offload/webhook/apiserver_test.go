package webhook

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/install/installer"
)

const within = 20 * time.Second

func namespace(t *testing.T, c client.Client, name string, labels map[string]string) {
	t.Helper()
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
		t.Fatal(err)
	}
}

// chart renders the chart and returns its objects of these kinds.
func chart(t *testing.T, vals map[string]any, kinds ...string) []*unstructured.Unstructured {
	t.Helper()
	loaded, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := installer.Render(loaded, "liqo", vals)
	if err != nil {
		t.Fatal(err)
	}
	var found []*unstructured.Unstructured
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		for _, kind := range kinds {
			if object.GetKind() == kind {
				found = append(found, object)
			}
		}
	}
	return found
}

func values() map[string]any {
	return map[string]any{"discovery": map[string]any{"config": map[string]any{"clusterID": "rome"}}}
}
