package offload

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func TestDaemonSetsKeepOffVirtualNodes(t *testing.T) {
	everything := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	for name, test := range map[string]struct {
		change  func(*corev1.PodTemplateSpec)
		changed bool
	}{
		"tolerates everything": {func(p *corev1.PodTemplateSpec) {}, true},
		"tolerates nothing":    {func(p *corev1.PodTemplateSpec) { p.Spec.Tolerations = nil }, false},
		"tolerates the taint": {func(p *corev1.PodTemplateSpec) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: api.TaintVirtualNode, Operator: corev1.TolerationOpExists}}
		}, true},
		"tolerates no execution": {func(p *corev1.PodTemplateSpec) { p.Spec.Tolerations[0].Effect = corev1.TaintEffectNoSchedule }, false},
		"asks by annotation": {func(p *corev1.PodTemplateSpec) {
			p.Annotations = map[string]string{AnnotationRunOnVirtualNodes: "true"}
		}, false},
		"asks by selector": {func(p *corev1.PodTemplateSpec) {
			p.Spec.NodeSelector = map[string]string{"liqo.io/type": "virtual-node"}
		}, false},
		"asks by runtime class": {func(p *corev1.PodTemplateSpec) { p.Spec.RuntimeClassName = new("liqo") }, false},
		"has terms of its own": {func(p *corev1.PodTemplateSpec) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a"}}}, {MatchFields: []corev1.NodeSelectorRequirement{{Key: "b"}}}},
			}}}
		}, true},
	} {
		set := &appsv1.DaemonSet{}
		set.Spec.Template.Spec.Tolerations = append([]corev1.Toleration(nil), everything...)
		test.change(&set.Spec.Template)
		if got := KeepOffVirtualNodes(set, "liqo"); got != test.changed {
			t.Errorf("%s: %v", name, got)
		}
		if !test.changed {
			continue
		}
		terms := set.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		for _, term := range terms {
			last := term.MatchExpressions[len(term.MatchExpressions)-1]
			if last.Key != "liqo.io/type" || last.Operator != corev1.NodeSelectorOpNotIn || last.Values[0] != "virtual-node" {
				t.Errorf("%s: a term lets virtual nodes in: %+v", name, term)
			}
		}
		if KeepOffVirtualNodes(set, "liqo") {
			t.Errorf("%s: twice is not once", name)
		}
	}
}

// TestPodsThatMustNotBeOffloadedStayLocal: a toleration of everything does not select virtual nodes. A toleration of their taint does.
func TestPodsThatMustNotBeOffloadedStayLocal(t *testing.T) {
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	for name, test := range map[string]struct {
		pod     corev1.Pod
		changed bool
	}{
		"tolerates everything":   {corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{everything}}}, true},
		"tolerates any eviction": {corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}}}, true},
		"tolerates nothing":      {corev1.Pod{}, false},
		"tolerates the taint":    {corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: api.TaintVirtualNode, Operator: corev1.TolerationOpExists}}}}, false},
		"tolerates everything, and the taint by name": {corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{
			everything, {Key: api.TaintVirtualNode, Operator: corev1.TolerationOpExists},
		}}}, false},
		"has its node": {corev1.Pod{Spec: corev1.PodSpec{NodeName: "node", Tolerations: []corev1.Toleration{everything}}}, false},
		"asks by selector": {corev1.Pod{Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"liqo.io/type": "virtual-node"}, Tolerations: []corev1.Toleration{everything},
		}}, false},
	} {
		if got := KeepLocal(&test.pod, "liqo"); got != test.changed {
			t.Errorf("%s: %v", name, got)
		}
		local := test.pod.DeepCopy()
		local.Spec.Affinity = nil
		if got := MutatePod(local, &offloadingv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: offloadingv1beta1.PodsLocal}, "liqo"); got != test.changed {
			t.Errorf("%s, in a namespace whose pods stay: %v", name, got)
		}
		if KeepLocal(&test.pod, "liqo") {
			t.Errorf("%s: twice is not once", name)
		}
	}
}

// TestDaemonSetPodsAreKeptOffVirtualNodes: a pod of a DaemonSet is refused for a virtual node, unless it asks for one and the node is not cordoned.
func TestDaemonSetPodsAreKeptOffVirtualNodes(t *testing.T) {
	for name, test := range map[string]struct {
		virtual, cordoned, asks bool
		says                    string
	}{
		"real":                     {},
		"real, cordoned":           {cordoned: true},
		"virtual":                  {virtual: true, says: "kept off virtual node milan"},
		"virtual, cordoned":        {virtual: true, cordoned: true, says: "kept off virtual node milan"},
		"asked for":                {virtual: true, asks: true},
		"asked for, and cordoned":  {virtual: true, cordoned: true, asks: true, says: "virtual node milan is cordoned"},
		"asked for, and it is not": {asks: true},
	} {
		pod, node := &corev1.Pod{}, &corev1.Node{}
		node.Name, node.Spec.Unschedulable = "milan", test.cordoned
		if test.virtual {
			node.Labels = map[string]string{api.LabelType: api.TypeVirtualNode}
		}
		if test.asks {
			pod.Annotations = map[string]string{AnnotationRunOnVirtualNodes: api.True}
		}
		if got := RefuseDaemonSetPod(pod, node, "liqo"); (got == "") != (test.says == "") || !strings.Contains(got, test.says) {
			t.Errorf("%s: %q, want %q", name, got, test.says)
		}
	}
}

func TestNodeOfDaemonSetPod(t *testing.T) {
	term := func(names ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: names}}}
	}
	elsewhere := term("rome-1")
	elsewhere.MatchFields[0].Operator = corev1.NodeSelectorOpNotIn
	for _, row := range []struct {
		terms []corev1.NodeSelectorTerm
		want  string
	}{
		{nil, ""},
		{[]corev1.NodeSelectorTerm{term("rome-1")}, "rome-1"},
		{[]corev1.NodeSelectorTerm{term("rome-1"), term("rome-1")}, "rome-1"},
		{[]corev1.NodeSelectorTerm{elsewhere}, ""},
		// Whoever forges such a pod causes no read for each of the names.
		{[]corev1.NodeSelectorTerm{term("rome-1", "rome-2")}, ""},
		{[]corev1.NodeSelectorTerm{term("rome-1"), term("rome-2")}, ""},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: row.terms},
		}}}}
		if got := NodeOfDaemonSetPod(pod); got != row.want {
			t.Errorf("terms %v: node %q, want %q", row.terms, got, row.want)
		}
	}
	if got := NodeOfDaemonSetPod(&corev1.Pod{}); got != "" {
		t.Errorf("a pod without affinity: node %q", got)
	}
}
