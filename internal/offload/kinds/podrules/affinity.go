package podrules

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

const (
	// AnnotationAntiAffinity spreads the pods of a workload over the provider's nodes. Its values are AntiAffinitySoft, AntiAffinityHard and
	// AntiAffinityPropagate.
	AnnotationAntiAffinity = "liqo.io/anti-affinity-preset"
	// AntiAffinitySoft prefers different nodes.
	AntiAffinitySoft = "soft"
	// AntiAffinityHard demands different nodes.
	AntiAffinityHard = "hard"
	// AntiAffinityPropagate copies the Pod's own anti-affinity.
	AntiAffinityPropagate = "propagate"
	// AnnotationAntiAffinityLabels lists, separated by commas, the label keys that identify the workload for AnnotationAntiAffinity.
	AnnotationAntiAffinityLabels = "liqo.io/anti-affinity-labels"
)

// affinity returns the affinity of the remote Pod: the anti-affinity that the Pod requests by annotation, and the node affinity of the VirtualNode's
// offloading patch. All other affinity of the Pod refers to local nodes and is not copied.
func affinity(local *corev1.Pod, namespace string, labels map[string]string, patch *offloadingv1beta1.OffloadingPatch) *corev1.Affinity {
	out := corev1.Affinity{PodAntiAffinity: antiAffinity(local, namespace, labels)}
	if patch != nil && patch.Affinity != nil {
		out.NodeAffinity = patch.Affinity.NodeAffinity.DeepCopy()
	}
	if out.PodAntiAffinity == nil && out.NodeAffinity == nil {
		return nil
	}
	return &out
}

func antiAffinity(local *corev1.Pod, namespace string, labels map[string]string) *corev1.PodAntiAffinity {
	term := corev1.PodAffinityTerm{
		TopologyKey:   corev1.LabelHostname,
		LabelSelector: &metav1.LabelSelector{MatchLabels: workload(local, labels)},
	}
	switch local.Annotations[AnnotationAntiAffinity] {
	case AntiAffinityPropagate:
		if local.Spec.Affinity == nil {
			return nil
		}
		return propagated(local.Spec.Affinity.PodAntiAffinity.DeepCopy(), local, namespace)
	case AntiAffinitySoft:
		return &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{Weight: 1, PodAffinityTerm: term},
		}}
	case AntiAffinityHard:
		return &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}
	default:
		return nil
	}
}

// propagated replaces the Pod's own namespace in the terms by the remote namespace, and removes requirements that the local API server derived.
func propagated(a *corev1.PodAntiAffinity, local *corev1.Pod, to string) *corev1.PodAntiAffinity {
	if a == nil {
		return nil
	}
	rename := func(term *corev1.PodAffinityTerm) {
		unmergeTerm(term, local.Labels)
		for i, name := range term.Namespaces {
			if name == local.Namespace {
				term.Namespaces[i] = to
			}
		}
	}
	for i := range a.RequiredDuringSchedulingIgnoredDuringExecution {
		rename(&a.RequiredDuringSchedulingIgnoredDuringExecution[i])
	}
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		rename(&a.PreferredDuringSchedulingIgnoredDuringExecution[i].PodAffinityTerm)
	}
	return a
}

// workload returns the labels that select the pods of one workload in the provider. These are the Pod's labels with the keys in
// AnnotationAntiAffinityLabels. If it has none of them, workload returns all its labels, except labels that differ between pods of one workload. An
// empty selector would match every pod.
func workload(local *corev1.Pod, labels map[string]string) map[string]string {
	listed := map[string]string{}
	for _, key := range commaList(local.Annotations[AnnotationAntiAffinityLabels]) {
		if value, found := labels[key]; found {
			listed[key] = value
		}
	}
	if len(listed) > 0 {
		return listed
	}
	out := maps.Clone(labels)
	for _, key := range []string{"pod-template-hash", "controller-revision-hash", "statefulset.kubernetes.io/pod-name"} {
		delete(out, key)
	}
	return out
}

// commaList splits a list at commas. Blanks around entries and empty entries are removed.
func commaList(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
