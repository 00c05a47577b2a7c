// Package podrules holds the rules of reflection for pods, as pure functions: the ShadowPod of a local pod and its later changes, the status to copy back,
// the tokens that a pod needs, and the problems to report to its user.
package podrules

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
)

// Annotations by which a Pod configures its offloading.
const (
	// AnnotationAPIServerSupport selects the API server that the Pod may use: APIServerRemote, APIServerDisabled, or by default that of the origin
	// cluster.
	AnnotationAPIServerSupport = "liqo.io/api-server-support"
	// APIServerRemote gives the Pod access to the provider's API server with a service account of the provider.
	APIServerRemote = "remote"
	// APIServerDisabled gives the Pod no credentials for any API server.
	APIServerDisabled = "disabled"
	// AnnotationRemoteServiceAccount names the provider's service account for APIServerRemote. Without it, the name of the local service account is
	// used.
	AnnotationRemoteServiceAccount = "liqo.io/remote-service-account-name"
	// AnnotationRemoteRuntimeClass names the RuntimeClass of the Pod in the provider.
	AnnotationRemoteRuntimeClass = "liqo.io/remote-runtime-class-name"
	// DefaultRuntimeClass is the default of Options.RuntimeClass.
	DefaultRuntimeClass = "liqo"
)

// Options holds the facts about a virtual node that the rules for its pods depend on.
type Options struct {
	// Origin and Destination are the IDs of the consumer and the provider.
	Origin, Destination string
	// Node is the name of the virtual node.
	Node string
	// HostIP is the IP of the virtual node. Local pods report it as their host IP.
	HostIP string
	// RuntimeClass is the RuntimeClass that schedules Pods to virtual nodes. It has no meaning in the provider.
	RuntimeClass string
	// LabelsNotReflected and AnnotationsNotReflected are keys that are not copied to the provider. A trailing * matches any suffix.
	LabelsNotReflected, AnnotationsNotReflected []string
	// AnnotationsReflected are keys that are copied in addition to those of AcceptedMetadata.
	AnnotationsReflected []string
	// Patch is the VirtualNode's offloading patch, applied to every pod; may be nil.
	Patch *offloadingv1beta1.OffloadingPatch
	// TranslateIP maps the address of a remote Pod to its address in this cluster's network. It returns an empty string while the mapping is unknown,
	// and an error for an address that the provider may not use. nil leaves addresses unchanged.
	TranslateIP func(string) (string, error)
	// Now is the current time of this cluster's clock. The zero time leaves timestamps of the provider unchanged.
	Now time.Time
	// Unavailable reports whether the provider, or the network to it, is unreachable.
	Unavailable bool
	// APIServer describes how pods reach the API server of this cluster.
	APIServer APIServer
	// VirtualStorageClass is Liqo's StorageClass in this cluster, which creates volumes in the cluster of their pods. It has no meaning in the
	// provider. Empty means StorageClass.
	VirtualStorageClass string
	// ConfigMapsReflected reports whether the copy of the root CA will exist in the provider, so that pods may depend on it.
	ConfigMapsReflected bool
	// Secret and ConfigMap return an object of a local namespace, nil if it does not exist or is unknown; may be nil.
	Secret    func(namespace, name string) *corev1.Secret
	ConfigMap func(namespace, name string) *corev1.ConfigMap
	// SecretType and ConfigMapType decide which of them are reflected; empty means DenyList.
	SecretType, ConfigMapType offloadingv1beta1.ReflectionType
	// RemoteNamespace returns the remote namespace of a local namespace, false if it has none; may be nil.
	RemoteNamespace func(namespace string) (string, bool)
}

// ShadowPod returns the ShadowPod that makes the provider run the local Pod. Its spec is computed at creation. Later, only labels and annotations follow the
// local Pod (ShadowPodMetadata), and the fields that Kubernetes lets change in a Pod (ChangeSpec).
func ShadowPod(local *corev1.Pod, namespace string, o Options) *offloadingv1beta1.ShadowPod {
	labels, annotations := podMetadata(local, o)
	made := *local
	made.Spec.EphemeralContainers = nil // a new Pod can't have any: they are added later
	annotations[AnnotationSpec] = specNotes(&made.Spec)
	return &offloadingv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Name: local.Name, Namespace: namespace, Labels: labels, Annotations: annotations},
		Spec:       offloadingv1beta1.ShadowPodSpec{Pod: podSpec(local, namespace, labels, o)},
	}
}

func podMetadata(local *corev1.Pod, o Options) (labels, annotations map[string]string) {
	// The local Pod may carry labels and annotations of an offloaded Pod, for example because its manifest was exported from one. They are not
	// copied. The provider would take some of them for those of this virtual node, and must set the others itself.
	labels = kinds.Without(local.Labels, offloadingv1beta1.LabelShadowPod, LabelRemoteUnavailable, offloadingv1beta1.LabelCreatorUser, offloadingv1beta1.LabelManagedBy)
	annotations = kinds.Without(local.Annotations, kinds.AnnotationAnnotations, kinds.AnnotationLabels, AnnotationRestarts, AnnotationOffloaded, AnnotationRemoteUID, AnnotationSpec, AnnotationGates, AnnotationGrace)
	WithoutBinding(labels)
	kinds.Drop(annotations, admissionAnnotations)
	kinds.AcceptPodAnnotations(annotations, o.AnnotationsReflected)
	kinds.Disown(annotations, o.AnnotationsReflected)
	kinds.Drop(labels, o.LabelsNotReflected)
	kinds.Drop(annotations, o.AnnotationsNotReflected)
	if o.Patch != nil {
		kinds.Drop(labels, o.Patch.LabelsNotReflected)
		kinds.Drop(annotations, o.Patch.AnnotationsNotReflected)
	}
	if keys := slices.Sorted(maps.Keys(annotations)); len(keys) > 0 {
		annotations[kinds.AnnotationAnnotations] = strings.Join(keys, ",")
	}
	annotations[kinds.AnnotationLabels] = strings.Join(slices.Sorted(maps.Keys(labels)), ",")
	labels[api.LabelOrigin], labels[api.LabelDestination] = o.Origin, o.Destination
	labels[offloadingv1beta1.LabelNodeName] = o.Node
	annotations[kinds.AnnotationLocalUID] = string(local.UID)
	maps.Copy(annotations, notPruned)
	return labels, annotations
}

// notPruned are annotations of a ShadowPod for an Argo CD of the provider. By default, it takes all objects with label app.kubernetes.io/instance for those of its
// application of that name, and deletes those that the application does not contain. The label must stay: the Pod has the labels of its ShadowPod, and Services and
// NetworkPolicies select Pods by it. The Pod needs no such annotations, because Argo CD deletes no object that has an owner.
var notPruned = map[string]string{
	"argocd.argoproj.io/sync-options":    "Prune=false,Delete=false",
	"argocd.argoproj.io/compare-options": "IgnoreExtraneous",
}

// OwnsShadowPod reports whether the virtual node that o describes created the ShadowPod. Other ShadowPods must not be changed.
func OwnsShadowPod(shadow *offloadingv1beta1.ShadowPod, o Options) bool {
	return shadow.Labels[api.LabelOrigin] == o.Origin && shadow.Labels[offloadingv1beta1.LabelNodeName] == o.Node
}

// ShadowPodMetadata returns shadow with the present labels and annotations of local, and with the readiness gates to report to the provider. It
// reports whether that changes anything. The argument remote is the Pod in the provider; it may be nil. Labels and annotations that the provider
// added stay. Those that were reflected and no longer exist on local are removed.
func ShadowPodMetadata(shadow *offloadingv1beta1.ShadowPod, local, remote *corev1.Pod, o Options) (*offloadingv1beta1.ShadowPod, bool) {
	labels, annotations := podMetadata(local, o)
	former := slices.DeleteFunc(strings.Split(shadow.Annotations[kinds.AnnotationLabels], ","), func(key string) bool {
		return key == offloadingv1beta1.LabelCreatorUser || key == offloadingv1beta1.LabelManagedBy // earlier releases listed them as labels of the local Pod
	})
	newLabels := kinds.Without(shadow.Labels, former...)
	maps.Copy(newLabels, labels)
	newAnnotations := kinds.Without(shadow.Annotations, append(strings.Split(shadow.Annotations[kinds.AnnotationAnnotations], ","), kinds.AnnotationAnnotations)...)
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

// podSpec builds the remote spec field by field, so that a field unknown to this release is not copied.
func podSpec(local *corev1.Pod, namespace string, labels map[string]string, o Options) corev1.PodSpec {
	in := local.Spec.DeepCopy()
	useRemoteAPI := local.Annotations[AnnotationAPIServerSupport] == APIServerRemote
	out := corev1.PodSpec{
		Containers:                    containers(in.Containers),
		InitContainers:                containers(in.InitContainers),
		Volumes:                       in.Volumes,
		ActiveDeadlineSeconds:         in.ActiveDeadlineSeconds,
		DNSConfig:                     searches(in.DNSConfig, o),
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
	keepPaths(&out, local.Namespace)
	for i := range out.Volumes {
		ephemeral(&out.Volumes[i], o.VirtualStorageClass)
		remoteClaim(&out.Volumes[i], local.Annotations[api.AnnotationRemoteClaim])
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
	if usesOriginAPIServer(local, o) {
		withAPIServer(&out, local, o)
		return out
	}
	for i := range out.Volumes {
		withoutToken(&out.Volumes[i])
	}
	return out
}

// containers removes resource claims, since ResourceClaim objects are not reflected.
func containers(in []corev1.Container) []corev1.Container {
	for i := range in {
		in[i].Resources.Claims = nil
	}
	return in
}

func tolerations(in []corev1.Toleration, patch *offloadingv1beta1.OffloadingPatch) []corev1.Toleration {
	out := slices.DeleteFunc(in, func(t corev1.Toleration) bool { return t.Key == api.TaintVirtualNode })
	if patch != nil {
		out = append(out, patch.DeepCopy().Tolerations...)
	}
	return out
}

func runtimeClass(local *corev1.Pod, o Options) *string {
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

// withoutToken removes the service account tokens for the local API server from a projected volume.
func withoutToken(v *corev1.Volume) {
	if v.Projected == nil {
		return
	}
	v.Projected.Sources = slices.DeleteFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
}
