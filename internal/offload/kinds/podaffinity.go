package kinds

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offv1 "liqo.io/liqo/api/offloading/v1beta1"
)

const (
	// AnnotationAntiAffinity spreads the pods of a workload over the provider's nodes: AntiAffinitySoft, -Hard or -Propagate.
	AnnotationAntiAffinity = "liqo.io/anti-affinity-preset"
	// AntiAffinitySoft prefers different nodes.
	AntiAffinitySoft = "soft"
	// AntiAffinityHard demands different nodes.
	AntiAffinityHard = "hard"
	// AntiAffinityPropagate copies the Pod's own anti-affinity.
	AntiAffinityPropagate = "propagate"
	// AnnotationAntiAffinityLabels lists, separated by commas, the label keys that make a workload for AnnotationAntiAffinity.
	AnnotationAntiAffinityLabels = "liqo.io/anti-affinity-labels"
)

// affinity is what decides the node in the provider: the anti-affinity the Pod asks for by annotation, and the node affinity of the
// VirtualNode. The Pod's own affinity speaks about local nodes and stays here.
func affinity(local *corev1.Pod, namespace string, labels map[string]string, patch *offv1.OffloadingPatch) *corev1.Affinity {
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

// propagated gives the terms that name the Pod's own namespace the name that it has in the provider, and takes back what the API server here derived.
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

// workload is the labels that the pods of one workload share, as they are in the provider: those listed that there are, else all but those that
// differ between the pods of one. A selector without labels would mean every pod.
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

// commaList reads a list separated by commas; blanks around its parts, and empty parts, do not count.
func commaList(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
