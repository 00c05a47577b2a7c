package offloading

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/test/clitest/fakecluster"
)

func TestNodeSelectorTerms(t *testing.T) {
	in, notIn, exists := corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists
	got, err := nodeSelectorTerms([]string{"region in (b,a),gpu", "provider=kind,zone!=z"})
	if err != nil {
		t.Fatal(err)
	}
	want := []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: exists}, {Key: "region", Operator: in, Values: []string{"a", "b"}}}},
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "provider", Operator: in, Values: []string{"kind"}}, {Key: "zone", Operator: notIn, Values: []string{"z"}}}},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b []string) bool { return strings.Join(a, ",") == strings.Join(b, ",") })); diff != "" {
		t.Error(diff)
	}
}

// TestRepeatedNamespacesCountOnce: a namespace that occurs twice on the command line counts once, in the order of the command line.
func TestRepeatedNamespacesCountOnce(t *testing.T) {
	c := fakecluster.New("rome",
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blog"}})
	names, err := (&namespaceChoice{}).resolve(t.Context(), c, []string{"shop", "blog", "shop"}, func(string) string { return "create it" })
	if want := []string{"shop", "blog"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("namespaces %v, want %v: %v", names, want, err)
	}
}
