package kinds

import (
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Resources whose metadata is copied by an allow-list.
const (
	resourceServices        = "services"
	resourceIngresses       = "ingresses"
	resourceConfigMaps      = "configmaps"
	resourceSecrets         = "secrets"
	resourceNetworkPolicies = "networkpolicies"
	resourceEndpointSlices  = "endpointslices"
	resourcePods            = "pods"

	resourcePodDisruptionBudgets = "poddisruptionbudgets"
)

// AcceptedMetadata returns the keys of annotations and labels, with a prefix, that a copy of a resource may have in another cluster; a trailing *
// matches the rest. Controllers of that cluster obey the others: they give out addresses, names and certificates, read Secrets of other
// namespaces, or take the object for their own. What a list does not know, a controller may, so that it stays. Keys without a prefix are private to
// the user (Kubernetes' convention) and accepted, except for RefusedLabels.
//
// Admission policy liqo-copies-metadata of the chart, which holds hostile consumers to it, has the same lists; administrators extend both. Pods are
// made by the provider itself, which gives them no other annotations (AcceptPodAnnotations). Affinity, spreading and NetworkPolicies go by labels of pods, so
// that there is no list of those that are accepted, but one of those that are refused (RefusePodLabels).
func AcceptedMetadata(resource string) (annotations, labels []string) {
	// The last three no controller obeys, and many objects have them: the API server's own, and all that Helm installed.
	annotations = []string{
		AnnotationLabels, AnnotationAnnotations, AnnotationSkip, AnnotationAllow,
		"kubernetes.io/description", "meta.helm.sh/release-name", "meta.helm.sh/release-namespace",
	}
	labels = []string{"offloading.liqo.io/*", "app.kubernetes.io/*", "helm.sh/chart"}
	switch resource {
	case resourceServices:
		annotations = append(annotations, AnnotationForceNodePort, "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints")
	case resourceIngresses:
		// Of the controller that most clusters have, what concerns this Ingress alone and is a number, a word or a path.
		for _, key := range []string{
			"affinity", "backend-protocol", "force-ssl-redirect", "proxy-body-size", "proxy-connect-timeout", "proxy-read-timeout", "proxy-send-timeout",
			"ssl-redirect",
		} {
			annotations = append(annotations, "nginx.ingress.kubernetes.io/"+key)
		}
	case resourceSecrets:
		// The account of a token asks for nothing where no Secret of that type is accepted (policy liqo-copies-secret).
		annotations = append(annotations, corev1.ServiceAccountNameKey, AnnotationTokenPod, AnnotationTokenPodUID, AnnotationTokenExpiration, AnnotationTokenRefresh)
	case resourcePods:
		// What tunes the offloading, what tools of users read, limits of the pod itself, and the key that the pods of a Job read their index by.
		annotations = append(annotations, "liqo.io/*", "offloading.liqo.io/*", "kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/default-logs-container",
			"kubectl.kubernetes.io/restartedAt", "kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth", "container.apparmor.security.beta.kubernetes.io/*",
			batchv1.JobCompletionIndexAnnotation, "checksum/*")
	case resourceEndpointSlices:
		labels = append(labels, discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy, "service.kubernetes.io/headless")
	}
	return annotations, labels
}

// RefusedLabels are keys of labels without a prefix that controllers obey nevertheless: dashboards load ConfigMaps and Secrets by them, from all
// namespaces.
func RefusedLabels() []string { return []string{"grafana_*"} }

// acceptMetadata drops the labels and annotations that a copy of a resource must not have.
func acceptMetadata(resource string, labels, annotations map[string]string, moreLabels, moreAnnotations []string) {
	acceptedAnnotations, acceptedLabels := AcceptedMetadata(resource)
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.Contains(key, "/") && !matches(key, acceptedAnnotations) && !matches(key, moreAnnotations)
	})
	maps.DeleteFunc(labels, func(key, _ string) bool {
		return (strings.Contains(key, "/") && !matches(key, acceptedLabels) || matches(key, RefusedLabels())) && !matches(key, moreLabels)
	})
}

// AcceptEndpointSliceMetadata does so for the EndpointSlice that a provider makes for a consumer.
func AcceptEndpointSliceMetadata(labels, annotations map[string]string) {
	acceptMetadata(resourceEndpointSlices, labels, annotations, nil, nil)
}

// AcceptPodAnnotations drops the annotations that the Pod of a consumer must not have here; more are the keys that an administrator accepts.
// Container runtimes obey keys that begin like a domain but have no prefix (io.kubernetes.cri-o.Devices), so that one with a dot is none of the user's.
func AcceptPodAnnotations(annotations map[string]string, more []string) {
	acceptMetadata(resourcePods, nil, annotations, nil, more)
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.Contains(key, ".") && !strings.Contains(key, "/") && !matches(key, more)
	})
}

// RefusedPodLabels returns what a Pod of a consumer has no labels of, by default: the domains of prefixes, with all below them, and keys without a prefix. Webhooks and
// controllers select pods by them, in all namespaces: they add a container, give the identity of a cloud, or take the pod into their queue.
func RefusedPodLabels() (domains, keys []string) {
	return []string{
		"istio.io", "linkerd.io", "kuma.io", "hashicorp.com", "dapr.io", // meshes, and agents that bring Secrets
		"datadoghq.com",                        // agents
		"azure.workload.identity", "spiffe.io", // identities
		"kueue.x-k8s.io", "scheduling.x-k8s.io", // queues and groups
		"scheduling.k8s.io", "scheduling.sigs.k8s.io",
	}, []string{"aadpodidbinding"} // identities of Azure, before azure.workload.identity
}

// RefusePodLabels drops the labels that the Pod of a consumer must not have here. An administrator accepts keys of RefusedPodLabels, and refuses more; a trailing *
// matches the rest. Labels of Liqo itself stay.
func RefusePodLabels(labels map[string]string, accepted, refused []string) {
	domains, keys := RefusedPodLabels()
	maps.DeleteFunc(labels, func(key, _ string) bool {
		domain, _, prefixed := strings.Cut(key, "/")
		within := func(other string) bool { return prefixed && (domain == other || strings.HasSuffix(domain, "."+other)) }
		if within("liqo.io") {
			return false
		}
		obeyed := slices.ContainsFunc(domains, within) || slices.Contains(keys, key)
		return matches(key, refused) || obeyed && !matches(key, accepted)
	})
}

// matches tells whether one of patterns stands for key.
func matches(key string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return key == pattern || wild && strings.HasPrefix(key, prefix)
	})
}
