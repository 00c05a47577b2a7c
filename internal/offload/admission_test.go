package offload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func TestMutatePod(t *testing.T) {
	toleration := corev1.Toleration{Key: "virtual-node.liqo.io/not-allowed", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	own := requirement("disk", corev1.NodeSelectorOpIn, "ssd")
	south, east := requirement("region", corev1.NodeSelectorOpIn, "south"), requirement("region", corev1.NodeSelectorOpIn, "east")
	virtual, real := requirement("liqo.io/type", corev1.NodeSelectorOpIn, "virtual-node"), requirement("liqo.io/type", corev1.NodeSelectorOpNotIn, "virtual-node")
	selector := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term(south), term(east)}}
	liqo, other := "liqo", "gvisor"
	required := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	for name, c := range map[string]struct {
		strategy offloadingv1beta1.PodOffloadingStrategy
		selector *corev1.NodeSelector
		pod      corev1.PodSpec
		want     corev1.PodSpec
	}{
		"local: nothing": {strategy: offloadingv1beta1.PodsLocal, selector: selector},
		"liqo runtime class: nothing": {strategy: offloadingv1beta1.PodsRemote, pod: corev1.PodSpec{RuntimeClassName: &liqo},
			want: corev1.PodSpec{RuntimeClassName: &liqo}},
		"another runtime class": {strategy: offloadingv1beta1.PodsLocalAndRemote, pod: corev1.PodSpec{RuntimeClassName: &other},
			want: corev1.PodSpec{RuntimeClassName: &other, Tolerations: []corev1.Toleration{toleration}}},
		"both": {strategy: offloadingv1beta1.PodsLocalAndRemote, want: corev1.PodSpec{Tolerations: []corev1.Toleration{toleration}}},
		"both, of selected clusters": {strategy: offloadingv1beta1.PodsLocalAndRemote, selector: selector,
			want: corev1.PodSpec{Tolerations: []corev1.Toleration{toleration}, Affinity: required(term(south), term(east), term(real))}},
		"both, of selected clusters, and the pod's own": {strategy: offloadingv1beta1.PodsLocalAndRemote, selector: selector, pod: corev1.PodSpec{Affinity: required(term(own))},
			want: corev1.PodSpec{Tolerations: []corev1.Toleration{toleration}, Affinity: required(term(own, south), term(own, east), term(own, real))}},
		"remote": {strategy: offloadingv1beta1.PodsRemote,
			want: corev1.PodSpec{Tolerations: []corev1.Toleration{toleration}, Affinity: required(term(virtual))}},
		"remote, of selected clusters": {strategy: offloadingv1beta1.PodsRemote, selector: selector,
			want: corev1.PodSpec{Tolerations: []corev1.Toleration{toleration}, Affinity: required(term(virtual, south), term(virtual, east))}},
		"remote, and the pod's own": {strategy: offloadingv1beta1.PodsRemote, pod: corev1.PodSpec{Affinity: required(term(own), term(east))},
			want: corev1.PodSpec{Tolerations: []corev1.Toleration{toleration}, Affinity: required(term(own, virtual), term(east, virtual))}},
		"already tolerated": {strategy: offloadingv1beta1.PodsLocalAndRemote, pod: corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
			want: corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}},
		"tolerated for some time only": {strategy: offloadingv1beta1.PodsLocalAndRemote,
			pod:  corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64)}}},
			want: corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64)}, toleration}}},
		"another effect tolerated": {strategy: offloadingv1beta1.PodsLocalAndRemote,
			pod:  corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: toleration.Key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}},
			want: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: toleration.Key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}, toleration}}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &offloadingv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: c.strategy, ClusterSelector: c.selector}
			pod := &corev1.Pod{Spec: *c.pod.DeepCopy()}
			changed := MutatePod(pod, spec, "liqo")
			if diff := cmp.Diff(c.want, pod.Spec); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if changed == cmp.Equal(c.pod, c.want) {
				t.Errorf("changed is %v", changed)
			}
			if MutatePod(pod, spec, "liqo") || !cmp.Equal(c.want, pod.Spec) {
				t.Error("a second time changes it again")
			}
		})
	}
}
