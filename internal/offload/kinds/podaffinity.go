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
func affinity(local *corev1.Pod, labels map[string]string, patch *offv1.OffloadingPatch) *corev1.Affinity {
	out := corev1.Affinity{PodAntiAffinity: antiAffinity(local, labels)}
	if patch != nil && patch.Affinity != nil {
		out.NodeAffinity = patch.Affinity.NodeAffinity.DeepCopy()
	}
	if out.PodAntiAffinity == nil && out.NodeAffinity == nil {
		return nil
	}
	return &out
}

func antiAffinity(local *corev1.Pod, labels map[string]string) *corev1.PodAntiAffinity {
	term := corev1.PodAffinityTerm{
		TopologyKey:   corev1.LabelHostname,
		LabelSelector: &metav1.LabelSelector{MatchLabels: workload(local, labels)},
	}
	switch local.Annotations[AnnotationAntiAffinity] {
	case AntiAffinityPropagate:
		if local.Spec.Affinity == nil {
			return nil
		}
		return local.Spec.Affinity.PodAntiAffinity.DeepCopy()
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

// workload is the labels that the pods of one workload share, as they are in the provider.
func workload(local *corev1.Pod, labels map[string]string) map[string]string {
	if list := local.Annotations[AnnotationAntiAffinityLabels]; list != "" {
		out := map[string]string{}
		for key := range strings.SplitSeq(list, ",") {
			key = strings.TrimSpace(key)
			if value, found := labels[key]; found {
				out[key] = value
			}
		}
		return out
	}
	out := maps.Clone(labels)
	for _, key := range []string{"pod-template-hash", "controller-revision-hash", "statefulset.kubernetes.io/pod-name"} {
		delete(out, key)
	}
	return out
}
