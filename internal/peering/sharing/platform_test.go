package sharing

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
)

// TestPlatformOfVirtualNodes: a virtual node has the architecture and the operating system of its provider's nodes.
func TestPlatformOfVirtualNodes(t *testing.T) {
	node := func(arch string, ready bool, labels ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
		if arch != "" {
			n.Labels[corev1.LabelArchStable] = arch
		}
		for _, label := range labels {
			n.Labels[label] = api.TypeVirtualNode
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		if ready {
			n.Status.Conditions[0].Status = corev1.ConditionTrue
		}
		return n
	}
	for name, test := range map[string]struct {
		nodes   []corev1.Node
		present string
		want    string
	}{
		"one architecture":             {nodes: []corev1.Node{node("arm64", true), node("arm64", true)}, want: "arm64"},
		"mixed":                        {nodes: []corev1.Node{node("amd64", true), node("arm64", true), node("arm64", true)}, want: "arm64"},
		"as many of each":              {nodes: []corev1.Node{node("arm64", true), node("amd64", true)}, want: "amd64"},
		"mixed, and granted before":    {nodes: []corev1.Node{node("amd64", true), node("arm64", true), node("arm64", true)}, present: "amd64", want: "amd64"},
		"granted before, and gone":     {nodes: []corev1.Node{node("arm64", true)}, present: "amd64", want: "arm64"},
		"nodes that take no pods":      {nodes: []corev1.Node{node("amd64", false), node("amd64", false), node("arm64", true)}, want: "arm64"},
		"no node takes pods":           {nodes: []corev1.Node{node("arm64", false)}, want: "arm64"},
		"nodes of other clusters":      {nodes: []corev1.Node{node("amd64", true, api.LabelType), node("arm64", true)}, want: "arm64"},
		"nodes without a label":        {nodes: []corev1.Node{node("", true)}},
		"no node takes pods, and some": {nodes: []corev1.Node{node("arm64", false), node("amd64", false), node("amd64", false)}, present: "arm64", want: "arm64"},
	} {
		present := map[string]string{}
		if test.present != "" {
			present[corev1.LabelArchStable] = test.present
		}
		want := map[string]string{corev1.LabelOSStable: "linux"}
		if test.want != "" {
			want[corev1.LabelArchStable] = test.want
		}
		if got := platformOf(test.nodes).labels(present); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if got := platformOf(nil).labels(nil); len(got) != 0 {
		t.Errorf("a cluster without nodes has %v", got)
	}
}

// TestPlatformIsGranted: a ResourceSlice gets the platform with its resources. The labels that the administrator chose for the cluster take
// precedence.
func TestPlatformIsGranted(t *testing.T) {
	share := Share{Platform: map[string]string{corev1.LabelArchStable: "arm64", corev1.LabelOSStable: "linux"}}
	for name, test := range map[string]struct{ chosen, want map[string]string }{
		"nothing chosen":    {nil, share.Platform},
		"another label":     {map[string]string{"city": "milan"}, map[string]string{corev1.LabelArchStable: "arm64", corev1.LabelOSStable: "linux", "city": "milan"}},
		"another platform":  {map[string]string{corev1.LabelArchStable: "amd64"}, map[string]string{corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux"}},
		"nothing to choose": {map[string]string{}, share.Platform},
	} {
		if got := grantedLabels(share, Offer{NodeLabels: test.chosen}); !maps.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	if got := grantedLabels(Share{}, Offer{}); got != nil {
		t.Errorf("without anything known: %v", got)
	}
}
