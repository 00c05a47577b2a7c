package offload

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func virtualNode(name, cluster string, labels map[string]string) offloadingv1beta1.VirtualNode {
	return offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace(cluster), Name: name, UID: "uid-1"},
		Spec:       offloadingv1beta1.VirtualNodeSpec{ClusterID: cluster, Labels: labels},
	}
}

func requirement(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func term(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: requirements}
}

func TestSelected(t *testing.T) {
	florence := virtualNode("florence", "florence", map[string]string{"region": "center", "gpus": "4"})
	naples := virtualNode("naples", "naples", map[string]string{"region": "south"})
	naples.Spec.StorageClasses = []authv1beta1.StorageType{{StorageClassName: "ssd"}}
	turin1 := virtualNode("turin-1", "turin", map[string]string{"region": "north"})
	turin2 := virtualNode("turin-2", "turin", map[string]string{"region": "south"})
	nodes := []offloadingv1beta1.VirtualNode{turin1, naples, florence, turin2}
	for name, c := range map[string]struct {
		terms []corev1.NodeSelectorTerm
		want  []string
	}{
		"none is all":                   {nil, []string{"florence", "naples", "turin"}},
		"an empty term holds for none":  {[]corev1.NodeSelectorTerm{{}}, []string{}},
		"in, one node of two suffices":  {[]corev1.NodeSelectorTerm{term(requirement("region", corev1.NodeSelectorOpIn, "south"))}, []string{"naples", "turin"}},
		"not in holds for an absent":    {[]corev1.NodeSelectorTerm{term(requirement("gpus", corev1.NodeSelectorOpNotIn, "4"))}, []string{"naples", "turin"}},
		"terms are alternatives":        {[]corev1.NodeSelectorTerm{term(requirement("gpus", corev1.NodeSelectorOpExists)), term(requirement("region", corev1.NodeSelectorOpIn, "north"))}, []string{"florence", "turin"}},
		"requirements add up":           {[]corev1.NodeSelectorTerm{term(requirement("region", corev1.NodeSelectorOpIn, "south"), requirement(api.LabelRemoteClusterID, corev1.NodeSelectorOpNotIn, "turin"))}, []string{"naples"}},
		"does not exist":                {[]corev1.NodeSelectorTerm{term(requirement("gpus", corev1.NodeSelectorOpDoesNotExist))}, []string{"naples", "turin"}},
		"greater than":                  {[]corev1.NodeSelectorTerm{term(requirement("gpus", corev1.NodeSelectorOpGt, "3"))}, []string{"florence"}},
		"less than":                     {[]corev1.NodeSelectorTerm{term(requirement("gpus", corev1.NodeSelectorOpLt, "4"))}, []string{}},
		"not a number":                  {[]corev1.NodeSelectorTerm{term(requirement("region", corev1.NodeSelectorOpGt, "3"))}, []string{}},
		"every virtual node has a type": {[]corev1.NodeSelectorTerm{term(requirement(api.LabelType, corev1.NodeSelectorOpIn, api.TypeVirtualNode))}, []string{"florence", "naples", "turin"}},
		"storage":                       {[]corev1.NodeSelectorTerm{term(requirement(offloadingv1beta1.LabelStorageAvailable, corev1.NodeSelectorOpIn, "true"))}, []string{"naples"}},
		"by name":                       {[]corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{requirement("metadata.name", corev1.NodeSelectorOpIn, "turin-1")}}}, []string{"turin"}},
		"unknown operator":              {[]corev1.NodeSelectorTerm{term(requirement("gpus", "Like", "4"))}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Selected(&corev1.NodeSelector{NodeSelectorTerms: c.terms}, nodes)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSelectionWhileANodeIsLost: a cluster stays selected while its Node is missing, and no other cluster becomes selected because of that.
func TestSelectionWhileANodeIsLost(t *testing.T) {
	plain := []offloadingv1beta1.VirtualNode{virtualNode("naples", "naples", nil), virtualNode("turin", "turin", nil)}
	labelled := []offloadingv1beta1.VirtualNode{virtualNode("naples", "naples", map[string]string{"region": "south"}), plain[1]}
	lost := sets.New("naples", "turin")
	o := offloading("demo", inRegion("south"))
	if got := SelectedClusters(&o, plain, lost); len(got) != 0 {
		t.Errorf("never found, and picked: %v", got)
	}
	o.Status = Compile(&o, labelled, nil, nil, nil, "", "rome", noon)
	for range 2 { // the second evaluation gives the same result
		if got := SelectedClusters(&o, plain, lost); !slices.Equal(got, []string{"naples"}) {
			t.Errorf("while the Node is lost %v is picked", got)
		}
		o.Status = Compile(&o, plain, lost, nil, nil, "", "rome", noon)
	}
	if got := DesiredMapping([]offloadingv1beta1.NamespaceOffloading{o}, plain[:1], lost, nil, "rome", nil, nil); got["demo"] != "demo-rome" {
		t.Errorf("the provider is asked for %v", got)
	}
	if got := SelectedClusters(&o, plain, nil); len(got) != 0 {
		t.Errorf("the Node is back without the label, and picked is %v", got)
	}
	o.Generation++
	if got := SelectedClusters(&o, plain, lost); len(got) != 0 {
		t.Errorf("another specification, and picked is %v", got)
	}
}
