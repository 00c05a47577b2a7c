package kinds

import (
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Resources whose copies get only the metadata on an allow-list.
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

// AcceptedMetadata returns the prefixed keys of annotations and labels that a copy of a resource may have in another cluster. A trailing * matches
// any suffix. Controllers of the other cluster could act on other keys: they assign addresses, DNS names and certificates, read Secrets of other
// namespaces, or adopt the object. A key that the list does not contain may be known to such a controller, so it is not copied. Keys without a prefix
// are private to users by Kubernetes' convention and are copied, except for RefusedLabels.
//
// The chart's admission policy liqo-copies enforces the same lists against malicious consumers; administrators can extend both. The provider
// itself creates Pods, and gives them no other annotations (AcceptPodAnnotations). Affinity, topology spreading and NetworkPolicies select pods by
// labels. So for Pods there is no list of accepted labels, but a list of refused ones (RefusePodLabels).
func AcceptedMetadata(resource string) (annotations, labels []string) {
	// No controller acts on kubernetes.io/description, which objects that the API server creates have, or on the annotations of Helm, which all objects that
	// Helm installs have.
	annotations = []string{
		AnnotationLabels, AnnotationAnnotations, AnnotationSkip, AnnotationAllow,
		"kubernetes.io/description", "meta.helm.sh/release-name", "meta.helm.sh/release-namespace",
	}
	labels = []string{"offloading.liqo.io/*", "app.kubernetes.io/*", "helm.sh/chart"}
	switch resource {
	case resourceServices:
		annotations = append(annotations, AnnotationForceNodePort, "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints")
	case resourceIngresses:
		// These are keys of ingress-nginx, the most common controller. Each of them affects this Ingress alone, and its value is a number, a word or
		// a path.
		for _, key := range []string{
			"affinity", "backend-protocol", "force-ssl-redirect", "proxy-body-size", "proxy-connect-timeout", "proxy-read-timeout", "proxy-send-timeout",
			"ssl-redirect",
		} {
			annotations = append(annotations, "nginx.ingress.kubernetes.io/"+key)
		}
	case resourceSecrets:
		// The service account annotation has no effect, since no Secret of type service-account-token is accepted (policy liqo-copies).
		annotations = append(annotations, corev1.ServiceAccountNameKey, AnnotationTokenPod, AnnotationTokenPodUID, AnnotationTokenExpiration, AnnotationTokenRefresh)
	case resourcePods:
		// These keys configure the offloading, are read by users' tools, limit the pod itself, or hold the completion index that the pods of a Job
		// read.
		annotations = append(annotations, "liqo.io/*", "offloading.liqo.io/*", "kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/default-logs-container",
			"kubectl.kubernetes.io/restartedAt", "kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth", "container.apparmor.security.beta.kubernetes.io/*",
			batchv1.JobCompletionIndexAnnotation, "checksum/*")
	case resourceEndpointSlices:
		labels = append(labels, discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy, "service.kubernetes.io/headless")
	}
	return annotations, labels
}

// RefusedLabels returns keys of labels without a prefix that controllers act on nevertheless. Dashboards load ConfigMaps and Secrets with these
// labels from all namespaces.
func RefusedLabels() []string { return []string{"grafana_*"} }

// acceptMetadata removes the labels and annotations that a copy of a resource must not have. The last two arguments are additional accepted keys.
func acceptMetadata(resource string, labels, annotations map[string]string, moreLabels, moreAnnotations []string) {
	acceptedAnnotations, acceptedLabels := AcceptedMetadata(resource)
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.Contains(key, "/") && !matches(key, acceptedAnnotations) && !matches(key, moreAnnotations)
	})
	maps.DeleteFunc(labels, func(key, _ string) bool {
		return (strings.Contains(key, "/") && !matches(key, acceptedLabels) || matches(key, RefusedLabels())) && !matches(key, moreLabels)
	})
}

// AcceptEndpointSliceMetadata removes the labels and annotations that the EndpointSlice of a consumer must not have in the provider.
func AcceptEndpointSliceMetadata(labels, annotations map[string]string) {
	acceptMetadata(resourceEndpointSlices, labels, annotations, nil, nil)
}

// AcceptPodAnnotations removes the annotations that the Pod of a consumer must not have in the provider. The argument more has additional keys that an
// administrator accepts. Container runtimes also act on keys that look like a domain but have no prefix (io.kubernetes.cri-o.Devices). So a key with a dot and
// no prefix does not count as private to the user.
func AcceptPodAnnotations(annotations map[string]string, more []string) {
	acceptMetadata(resourcePods, nil, annotations, nil, more)
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.Contains(key, ".") && !strings.Contains(key, "/") && !matches(key, more)
	})
}

// RefusedPodLabels returns the labels that a Pod of a consumer must not have by default: domains of prefixes, including their subdomains, and keys
// without a prefix. Webhooks and controllers select pods in all namespaces by these labels: they inject a container, grant a cloud identity, add the
// pod to a queue, or run it elsewhere.
//
// A list of accepted domains would be safer, but can't be the default: operators select the pods of their Services by labels of their own domains
// (cnpg.io/cluster), and such a Service would have no endpoints in the provider.
func RefusedPodLabels() (domains, keys []string) {
	return []string{
		"istio.io", "linkerd.io", "kuma.io", "nsm.nginx.com", "hashicorp.com", "dapr.io", // service meshes, and agents that inject Secrets
		"datadoghq.com",                        // monitoring agents
		"azure.workload.identity", "spiffe.io", // cloud and workload identities
		"kueue.x-k8s.io", "scheduling.x-k8s.io", // job queues and pod groups
		"scheduling.k8s.io", "scheduling.sigs.k8s.io", "yunikorn.apache.org", "volcano.sh",
		"koordinator.sh",                         // quotas, and the priority on the CPUs of a node
		"eks.amazonaws.com",                      // profiles of Fargate, and pods without the identity of their account
		"alibabacloud.com", "virtual-kubelet.io", // containers outside the nodes (ECI of Alibaba Cloud, CCI of Huawei Cloud)
	}, []string{"aadpodidbinding", "instana-autotrace"} // Azure identities, before azure.workload.identity, and a monitoring agent
}

// RefusePodLabels removes the labels that the Pod of a consumer must not have in the provider. accepted are keys that an administrator allows, refused are keys
// in addition to RefusedPodLabels; a trailing * matches any suffix. If a key matches patterns of both lists, the longest pattern decides; of two equally long
// ones, the refused one. So with refused "*", Pods have only the labels in accepted. Labels of Liqo itself stay, except those of its components: with them, the
// provider's monitoring, for example, would take the Pod for a gateway or a virtual kubelet. An administrator can't accept these.
func RefusePodLabels(labels map[string]string, accepted, refused []string) {
	domains, keys := RefusedPodLabels()
	maps.DeleteFunc(labels, func(key, _ string) bool {
		domain, _, prefixed := strings.Cut(key, "/")
		within := func(other string) bool { return prefixed && (domain == other || strings.HasSuffix(domain, "."+other)) }
		if within("liqo.io") {
			return key == offloadingv1beta1.LabelComponent || within(networkingv1beta1.GroupVersion.Group)
		}
		obeyed := slices.ContainsFunc(domains, within) || slices.Contains(keys, key)
		allowed := longest(key, accepted)
		return obeyed && allowed == 0 || longest(key, refused) >= max(allowed, 1)
	})
}

// longest returns the length of the longest pattern that matches key. It is 0 if none does.
func longest(key string, patterns []string) int {
	length := 0
	for _, pattern := range patterns {
		if matches(key, []string{pattern}) {
			length = max(length, len(pattern))
		}
	}
	return length
}

// matches reports whether one of the patterns matches key.
func matches(key string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return key == pattern || wild && strings.HasPrefix(key, prefix)
	})
}
