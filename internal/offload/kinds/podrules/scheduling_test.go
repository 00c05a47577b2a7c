package podrules

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/offload/kinds"
)

func selector(requirements ...metav1.LabelSelectorRequirement) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}, MatchExpressions: requirements}
}

func requirement(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values}
}

// TestDerivedSelectors: values that the API server derived are not copied, and the provider's API server derives the same ones.
func TestDerivedSelectors(t *testing.T) {
	tier := requirement("tier", metav1.LabelSelectorOpIn, "a", "b")
	stored := pod(func(p *corev1.Pod) {
		p.Labels["pod-template-hash"], p.Labels["tenant"] = "h1", "x"
		p.Annotations = map[string]string{AnnotationAntiAffinity: AntiAffinityPropagate}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, MatchLabelKeys: []string{"pod-template-hash"},
			LabelSelector: selector(tier, requirement("pod-template-hash", metav1.LabelSelectorOpIn, "h1")),
		}}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, MatchLabelKeys: []string{"pod-template-hash"}, MismatchLabelKeys: []string{"tenant"},
				LabelSelector: selector(tier, requirement("pod-template-hash", metav1.LabelSelectorOpIn, "h1"), requirement("tenant", metav1.LabelSelectorOpNotIn, "x")),
			}},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{
				TopologyKey: corev1.LabelHostname, MatchLabelKeys: []string{"pod-template-hash"},
				LabelSelector: selector(requirement("pod-template-hash", metav1.LabelSelectorOpIn, "h1"), requirement("tenant", metav1.LabelSelectorOpNotIn, "x")),
			}}},
		}}
	})
	before := stored.DeepCopy()
	spec := ShadowPod(stored, "shop-rome", options).Spec.Pod
	spreadOut := spec.TopologySpreadConstraints[0]
	anti := spec.Affinity.PodAntiAffinity
	required, preferred := anti.RequiredDuringSchedulingIgnoredDuringExecution[0], anti.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm
	for what, got := range map[string]struct {
		selector *metav1.LabelSelector
		want     []metav1.LabelSelectorRequirement
	}{
		"spread":    {spreadOut.LabelSelector, []metav1.LabelSelectorRequirement{tier}},
		"required":  {required.LabelSelector, []metav1.LabelSelectorRequirement{tier}},
		"preferred": {preferred.LabelSelector, []metav1.LabelSelectorRequirement{requirement("tenant", metav1.LabelSelectorOpNotIn, "x")}}, // the user's own
	} {
		if diff := cmp.Diff(got.want, got.selector.MatchExpressions); diff != "" || got.selector.MatchLabels["app"] != "web" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	if len(spreadOut.MatchLabelKeys) != 1 || len(required.MatchLabelKeys) != 1 || len(required.MismatchLabelKeys) != 1 {
		t.Error("the provider does not derive it from its own labels")
	}
	if diff := cmp.Diff(before, stored); diff != "" {
		t.Errorf("the local pod was changed: %s", diff)
	}
}

// TestRulesAboutNodesOfTheOrigin removes topology constraints with labels that only nodes of the origin have.
func TestRulesAboutNodesOfTheOrigin(t *testing.T) {
	constraint := func(key string, when corev1.UnsatisfiableConstraintAction, domains *int32) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: when, MinDomains: domains}
	}
	const site, zone = "example.org/site", corev1.LabelTopologyZone
	for what, row := range map[string]struct {
		in, want []corev1.TopologySpreadConstraint
		told     string
	}{
		"host names, which all nodes have": {
			in:   []corev1.TopologySpreadConstraint{constraint(corev1.LabelHostname, corev1.DoNotSchedule, new(int32(2)))},
			want: []corev1.TopologySpreadConstraint{constraint(corev1.LabelHostname, corev1.DoNotSchedule, new(int32(2)))},
		},
		"a label of the origin": {
			in:   []corev1.TopologySpreadConstraint{constraint(site, corev1.DoNotSchedule, new(int32(2)))},
			want: []corev1.TopologySpreadConstraint{constraint(site, corev1.ScheduleAnyway, nil)}, told: `[0].whenUnsatisfiable is DoNotSchedule for topologyKey "example.org/site"`,
		},
		"zones, which nodes need not have": {
			in:   []corev1.TopologySpreadConstraint{constraint(site, corev1.ScheduleAnyway, nil), constraint(zone, corev1.DoNotSchedule, nil)},
			want: []corev1.TopologySpreadConstraint{constraint(site, corev1.ScheduleAnyway, nil), constraint(zone, corev1.ScheduleAnyway, nil)}, told: `[1].whenUnsatisfiable is DoNotSchedule for topologyKey "topology.kubernetes.io/zone"`,
		},
		"the same as a preference": {
			in:   []corev1.TopologySpreadConstraint{constraint(site, corev1.DoNotSchedule, nil), constraint(site, corev1.ScheduleAnyway, nil)},
			want: []corev1.TopologySpreadConstraint{constraint(site, corev1.ScheduleAnyway, nil)}, told: "[0]",
		},
	} {
		t.Run(what, func(t *testing.T) {
			local := pod(func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = row.in })
			if diff := cmp.Diff(row.want, ShadowPod(local, "shop-rome", options).Spec.Pod.TopologySpreadConstraints); diff != "" {
				t.Error(diff)
			}
			told := strings.Join(Problems(local), "; ")
			if (told == "") != (row.told == "") || !strings.Contains(told, row.told) {
				t.Errorf("told %q", told)
			}
		})
	}
}

// TestFieldsOfTheOriginAreNotCopied: values that admission and binding in the origin cluster wrote into a pod are not copied.
func TestFieldsOfTheOriginAreNotCopied(t *testing.T) {
	local := pod(func(p *corev1.Pod) {
		p.Labels[corev1.LabelTopologyZone], p.Labels[corev1.LabelTopologyRegion], p.Labels["topology.k8s.io/rack"] = "north", "eu", "7"
		p.Annotations = map[string]string{"kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request", "openshift.io/scc": "restricted", "note": "mine"}
	})
	shadow := ShadowPod(local, "shop-rome", options)
	for key := range shadow.Labels {
		if strings.HasPrefix(key, "topology.") {
			t.Errorf("label %s travels", key)
		}
	}
	if shadow.Annotations["note"] != "mine" || shadow.Annotations["kubernetes.io/limit-ranger"]+shadow.Annotations["openshift.io/scc"] != "" {
		t.Errorf("annotations %v", shadow.Annotations)
	}
	// The ShadowPod was created by an earlier release, which copied such labels.
	shadow.Labels[corev1.LabelTopologyZone] = "north"
	shadow.Annotations[kinds.AnnotationLabels] += "," + corev1.LabelTopologyZone
	if out, changed := ShadowPodMetadata(shadow, local, nil, options); !changed || out.Labels[corev1.LabelTopologyZone] != "" {
		t.Errorf("labels %v", out.Labels)
	}
}

func TestSchedulingMessagesNameTheCluster(t *testing.T) {
	remote := pod(func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available"}}
	})
	out := PodStatus(pod(nil), remote, options)
	if c := out.Status.Conditions[0]; c.Message != "in cluster milan: 0/1 nodes are available" {
		t.Errorf("%+v", c)
	}
}
