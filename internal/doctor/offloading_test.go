package doctor

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// TestNamespaceCollisions: two namespaces collide where they want the same remote namespace in one provider, and nowhere else.
func TestNamespaceCollisions(t *testing.T) {
	to := func(key, value string) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}},
		}}}
	}
	type wish struct {
		name     string // of the remote namespace; empty for the default
		selector *corev1.NodeSelector
	}
	const region = "topology.kubernetes.io/region"
	milan, turin := to(api.LabelRemoteClusterID, "milan"), to(api.LabelRemoteClusterID, "turin")
	for name, row := range map[string]struct {
		wishes []wish // of the namespaces a, b, c
		want   string // the only evidence; empty for none
	}{
		"everywhere":                       {[]wish{{"shop", nil}, {"shop", nil}}, "namespaces a and b both want to be shop in clusters milan, turin"},
		"in one cluster of two":            {[]wish{{"shop", nil}, {"shop", turin}}, "namespaces a and b both want to be shop in cluster turin"},
		"each in a cluster of its own":     {[]wish{{"shop", milan}, {"shop", turin}}, ""},
		"the selector matches no cluster":  {[]wish{{"shop", nil}, {"shop", to(api.LabelRemoteClusterID, "pisa")}}, ""},
		"by a label of the Node":           {[]wish{{"shop", to(region, "north")}, {"shop", milan}}, "namespaces a and b both want to be shop in cluster milan"},
		"the first of three is elsewhere":  {[]wish{{"shop", milan}, {"shop", turin}, {"shop", turin}}, "namespaces b and c both want to be shop in cluster turin"},
		"a name that is another's default": {[]wish{{"", nil}, {"a-rome", nil}}, "namespaces a and b both want to be a-rome in clusters milan, turin"},
		"different names":                  {[]wish{{"", nil}, {"shop", nil}, {"", nil}}, ""},
	} {
		c := &Cluster{ID: "rome"}
		for _, id := range []string{"milan", "turin"} {
			c.VirtualNodes = append(c.VirtualNodes, offloadingv1beta1.VirtualNode{
				ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: id},
			})
		}
		c.Nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{region: "north"}}}}
		for i, wish := range row.wishes {
			spec := offloadingv1beta1.NamespaceOffloadingSpec{ClusterSelector: wish.selector, NamespaceMappingStrategy: offloadingv1beta1.DefaultName}
			if wish.name != "" {
				spec.NamespaceMappingStrategy, spec.RemoteNamespaceName = offloadingv1beta1.SelectedName, wish.name
			}
			c.Offloadings = append(c.Offloadings, offloadingv1beta1.NamespaceOffloading{
				ObjectMeta: metav1.ObjectMeta{Namespace: string(rune('a' + i))}, Spec: spec,
				Status: offloadingv1beta1.NamespaceOffloadingStatus{OffloadingPhase: offloadingv1beta1.PhaseReady},
			})
		}
		r := &report{Cluster: c, now: now, check: "namespaces", part: partOffloading}
		namespaces(r)
		var got []string
		for _, finding := range r.findings {
			if finding.Level != OK {
				got = append(got, finding.Evidence)
			}
		}
		if strings.Join(got, "\n") != row.want {
			t.Errorf("%s: found %q, want %q", name, got, row.want)
		}
		if c.VirtualNodes[0].Labels != nil {
			t.Errorf("%s: the check changed the labels of a virtual node: %v", name, c.VirtualNodes[0].Labels)
		}
	}
}
