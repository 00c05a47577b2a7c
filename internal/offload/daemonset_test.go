package offload

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
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
		"asks by annotation":     {func(p *corev1.PodTemplateSpec) { p.Annotations = map[string]string{AnnotationDaemonSet: "true"} }, false},
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
