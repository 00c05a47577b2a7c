// Package kinds holds the rules of reflection, one file per kind, as pure functions: what the remote object looks like for a local
// one, what of its state comes back, and whether two of them differ. Nothing here reads or writes a cluster.
package kinds

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offv1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Annotations with which a Pod tunes its offloading.
const (
	// AnnotationAPIServerSupport tells which API server the Pod may speak to: APIServerRemote, APIServerDisabled.
	AnnotationAPIServerSupport = "liqo.io/api-server-support"
	// APIServerRemote lets the Pod use the provider's API server with a service account of the provider.
	APIServerRemote = "remote"
	// APIServerDisabled gives the Pod no credentials.
	APIServerDisabled = "disabled"
	// AnnotationRemoteServiceAccount names the provider's service account for APIServerRemote; the local name is used without it.
	AnnotationRemoteServiceAccount = "liqo.io/remote-service-account-name"
	// AnnotationRemoteRuntimeClass names the runtime class in the provider.
	AnnotationRemoteRuntimeClass = "liqo.io/remote-runtime-class-name"
	// AnnotationLocalUID, on a ShadowPod, is the UID of the local Pod it was made for; a later Pod of the same name is not that one.
	AnnotationLocalUID = "offloading.liqo.io/local-uid"
	// AnnotationLabels, on a ShadowPod, lists the keys of the labels that came from the local Pod, separated by commas: it is how a label
	// that was removed here is told from one that the provider added, by a process that remembers nothing.
	AnnotationLabels = "offloading.liqo.io/labels"
	// DefaultRuntimeClass is the name of PodOptions.RuntimeClass where an installation gives it no other.
	DefaultRuntimeClass = "liqo"
	// rootCA is the ConfigMap with the API server's CA that every namespace has, so that the reflected one needs another name.
	rootCA = "kube-root-ca.crt"
)

// PodOptions are the facts about a virtual node that decide what becomes of its pods.
type PodOptions struct {
	// Origin and Destination are the IDs of the consumer and the provider.
	Origin, Destination string
	// Node is the name of the virtual node.
	Node string
	// HostIP is the address that local pods report as their host's: the virtual node's.
	HostIP string
	// RuntimeClass is the class that sends Pods to virtual nodes, and means nothing in the provider.
	RuntimeClass string
	// LabelsNotReflected and AnnotationsNotReflected are keys that stay here. A key that ends with * stands for all that begin so.
	LabelsNotReflected, AnnotationsNotReflected []string
	// AnnotationsReflected are keys that are copied beside those of AcceptedMetadata.
	AnnotationsReflected []string
	// Patch is what the VirtualNode changes in every pod; may be nil.
	Patch *offv1.OffloadingPatch
	// TranslateIP turns the address of a remote Pod into the one it has here: empty while that is not known, or with an error if it is none
	// that the provider may have. nil leaves addresses as they are.
	TranslateIP func(string) (string, error)
	// Now is the time here; the zero time leaves the times of the provider's clock as they are.
	Now time.Time
	// Unavailable tells that the provider, or the network to it, is out of reach.
	Unavailable bool
	// APIServer is how pods reach the API server of this cluster.
	APIServer APIServer
	// StorageClass is what the provider offers by default for volumes of class StorageClass; empty leaves it to the provider.
	StorageClass string
	// ConfigMapsReflected tells that the remote copy of the root CA will be there for pods to wait for.
	ConfigMapsReflected bool
	// Secret returns a Secret of a local namespace, nil if none is known; may be nil.
	Secret func(namespace, name string) *corev1.Secret
}

// ShadowPod returns the object that makes the provider run local. Its spec is decided once, at creation; afterwards labels and annotations
// follow the local Pod (ShadowPodMetadata), and what Kubernetes lets change of a Pod (ChangeSpec).
func ShadowPod(local *corev1.Pod, namespace string, o PodOptions) *offv1.ShadowPod {
	labels, annotations := podMetadata(local, o)
	made := *local
	made.Spec.EphemeralContainers = nil // a Pod begins without: they are added to it
	annotations[AnnotationSpec] = specNotes(&made.Spec)
	return &offv1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Name: local.Name, Namespace: namespace, Labels: labels, Annotations: annotations},
		Spec:       offv1.ShadowPodSpec{Pod: podSpec(local, namespace, labels, o)},
	}
}

func podMetadata(local *corev1.Pod, o PodOptions) (labels, annotations map[string]string) {
	// Of a pod that is offloaded here, or whose manifest is that of one, some would be read there as if this node had written them, or are the
	// provider's to write.
	labels = without(local.Labels, offv1.LabelShadowPod, LabelRemoteUnavailable, offv1.LabelCreatorUser, offv1.LabelManagedBy)
	annotations = without(local.Annotations, AnnotationRestarts, AnnotationOffloaded, AnnotationRemoteUID, AnnotationSpec, AnnotationGates, AnnotationGrace)
	WithoutBinding(labels)
	drop(annotations, admissionAnnotations)
	AcceptPodAnnotations(annotations, o.AnnotationsReflected)
	drop(labels, o.LabelsNotReflected)
	drop(annotations, o.AnnotationsNotReflected)
	if o.Patch != nil {
		drop(labels, o.Patch.LabelsNotReflected)
		drop(annotations, o.Patch.AnnotationsNotReflected)
	}
	annotations[AnnotationLabels] = strings.Join(slices.Sorted(maps.Keys(labels)), ",")
	labels[api.LabelOrigin], labels[api.LabelDestination] = o.Origin, o.Destination
	labels[offv1.LabelNodeName] = o.Node
	annotations[AnnotationLocalUID] = string(local.UID)
	return labels, annotations
}

// OwnsShadowPod tells whether the ShadowPod was made by the virtual node that o describes. Any other is never touched.
func OwnsShadowPod(shadow *offv1.ShadowPod, o PodOptions) bool {
	return shadow.Labels[api.LabelOrigin] == o.Origin && shadow.Labels[offv1.LabelNodeName] == o.Node
}

// MadeFor tells whether the ShadowPod belongs to this very Pod, and not to an earlier one of the same name. A ShadowPod that does
// not say (made by another release) belongs to the Pod of its name.
func MadeFor(shadow *offv1.ShadowPod, local *corev1.Pod) bool {
	uid, said := shadow.Annotations[AnnotationLocalUID]
	return !said || uid == string(local.UID)
}

// ShadowPodMetadata returns shadow with the labels and annotations that local has now, and the readiness gates that are told the provider, whose
// Pod is remote (may be nil), and whether that changes anything. What the provider added stays; labels that were reflected and are gone here
// are removed.
func ShadowPodMetadata(shadow *offv1.ShadowPod, local, remote *corev1.Pod, o PodOptions) (*offv1.ShadowPod, bool) {
	labels, annotations := podMetadata(local, o)
	former := slices.DeleteFunc(strings.Split(shadow.Annotations[AnnotationLabels], ","), func(key string) bool {
		return key == offv1.LabelCreatorUser || key == offv1.LabelManagedBy // releases before took them for the local Pod's
	})
	newLabels := without(shadow.Labels, former...)
	maps.Copy(newLabels, labels)
	newAnnotations := without(shadow.Annotations)
	maps.Copy(newAnnotations, annotations)
	if gates := readinessGates(shadow, local, remote); gates != "" {
		newAnnotations[AnnotationGates] = gates
	} else {
		delete(newAnnotations, AnnotationGates)
	}
	if maps.Equal(newLabels, shadow.Labels) && maps.Equal(newAnnotations, shadow.Annotations) {
		return shadow, false
	}
	out := shadow.DeepCopy()
	out.Labels, out.Annotations = newLabels, newAnnotations
	return out, true
}

func without(in map[string]string, keys ...string) map[string]string {
	out := make(map[string]string, len(in)+3)
	maps.Copy(out, in)
	for _, key := range keys {
		delete(out, key)
	}
	return out
}

func drop(m map[string]string, patterns []string) {
	for _, pattern := range patterns {
		prefix, wild := strings.CutSuffix(pattern, "*")
		if !wild {
			delete(m, pattern)
			continue
		}
		maps.DeleteFunc(m, func(key, _ string) bool { return strings.HasPrefix(key, prefix) })
	}
}

// podSpec builds the remote spec from nothing, so that a field this release does not know stays here.
func podSpec(local *corev1.Pod, namespace string, labels map[string]string, o PodOptions) corev1.PodSpec {
	in := local.Spec.DeepCopy()
	useRemoteAPI := local.Annotations[AnnotationAPIServerSupport] == APIServerRemote
	out := corev1.PodSpec{
		Containers:                    containers(in.Containers),
		InitContainers:                containers(in.InitContainers),
		Volumes:                       in.Volumes,
		ActiveDeadlineSeconds:         in.ActiveDeadlineSeconds,
		DNSConfig:                     in.DNSConfig,
		DNSPolicy:                     in.DNSPolicy,
		EnableServiceLinks:            in.EnableServiceLinks,
		HostAliases:                   in.HostAliases,
		Hostname:                      in.Hostname,
		ImagePullSecrets:              in.ImagePullSecrets,
		ReadinessGates:                in.ReadinessGates,
		RestartPolicy:                 in.RestartPolicy,
		SecurityContext:               in.SecurityContext,
		SetHostnameAsFQDN:             in.SetHostnameAsFQDN,
		ShareProcessNamespace:         in.ShareProcessNamespace,
		Subdomain:                     in.Subdomain,
		TerminationGracePeriodSeconds: in.TerminationGracePeriodSeconds,
		TopologySpreadConstraints:     spread(in.TopologySpreadConstraints, local.Labels),
		Tolerations:                   tolerations(in.Tolerations, o.Patch),
		AutomountServiceAccountToken:  &useRemoteAPI,
		Affinity:                      affinity(local, namespace, labels, o.Patch),
		RuntimeClassName:              runtimeClass(local, o),
	}
	if o.Patch != nil {
		out.NodeSelector = maps.Clone(o.Patch.NodeSelector)
	}
	for i := range out.Volumes {
		ephemeral(&out.Volumes[i], o.StorageClass)
	}
	if useRemoteAPI {
		out.ServiceAccountName = in.ServiceAccountName
		if name := local.Annotations[AnnotationRemoteServiceAccount]; name != "" {
			out.ServiceAccountName = name
		}
		return out
	}
	renameRootCA(&out, o)
	nameServiceAccount(out.InitContainers, in.ServiceAccountName)
	nameServiceAccount(out.Containers, in.ServiceAccountName)
	if speaksHome(local, o) {
		withAPIServer(&out, local, o)
		return out
	}
	for i := range out.Volumes {
		withoutToken(&out.Volumes[i])
	}
	return out
}

// containers drops the claims on devices, since the claims themselves stay here.
func containers(in []corev1.Container) []corev1.Container {
	for i := range in {
		in[i].Resources.Claims = nil
	}
	return in
}

func tolerations(in []corev1.Toleration, patch *offv1.OffloadingPatch) []corev1.Toleration {
	out := slices.DeleteFunc(in, func(t corev1.Toleration) bool { return t.Key == api.TaintVirtualNode })
	if patch != nil {
		out = append(out, patch.DeepCopy().Tolerations...)
	}
	return out
}

func runtimeClass(local *corev1.Pod, o PodOptions) *string {
	if name := local.Annotations[AnnotationRemoteRuntimeClass]; name != "" {
		return &name
	}
	if name := local.Spec.RuntimeClassName; name != nil && *name != o.RuntimeClass {
		return new(*name)
	}
	if o.Patch != nil && o.Patch.RuntimeClassName != nil {
		return new(*o.Patch.RuntimeClassName)
	}
	return nil
}

// withoutToken takes the credentials for the local API server out of a volume.
func withoutToken(v *corev1.Volume) {
	if v.Projected == nil {
		return
	}
	v.Projected.Sources = slices.DeleteFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
}
