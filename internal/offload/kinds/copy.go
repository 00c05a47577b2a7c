package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offv1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Annotations about the reflection of everything but pods.
const (
	// AnnotationSkip, whatever its value, keeps an object here; it counts with type DenyList.
	AnnotationSkip = "liqo.io/skip-reflection"
	// AnnotationAllow, whatever its value, lets an object be reflected; it counts with type AllowList.
	AnnotationAllow = "liqo.io/allow-reflection"
	// AnnotationAnnotations, on a copy, lists the keys of the annotations that came from here, as AnnotationLabels does those of labels.
	AnnotationAnnotations = "offloading.liqo.io/annotations"
	// annotationLastApplied holds the manifest of an object as kubectl was given it, and says nothing about a copy.
	annotationLastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// CopyOptions are the facts that decide what becomes of the objects that follow an offloaded namespace.
type CopyOptions struct {
	// Origin and Destination are the IDs of the consumer and the provider.
	Origin, Destination string
	// LabelsNotReflected and AnnotationsNotReflected are keys that stay here; see PodOptions.
	LabelsNotReflected, AnnotationsNotReflected []string
	// LabelsReflected and AnnotationsReflected are keys that are copied beside those of AcceptedMetadata.
	LabelsReflected, AnnotationsReflected []string
	// Type tells which objects are reflected; DenyList if empty.
	Type offv1.ReflectionType
	// Waiting, if not empty, is why nothing is decided at the moment.
	Waiting string
}

// Change is what makes of a copy what it should be.
type Change int

// Changes.
const (
	// Same is right as it is.
	Same Change = iota
	// Update can be done in place.
	Update
	// Replace takes a new object: something differs that Kubernetes does not let change.
	Replace
)

// Owns tells whether a remote object is a copy made by this consumer for this provider. Any other is never touched.
func Owns(remote metav1.Object, o CopyOptions) bool {
	labels := remote.GetLabels()
	return labels[api.LabelOrigin] == o.Origin && labels[api.LabelDestination] == o.Destination
}

// Kept tells why the user wants an object to stay here, empty if it may be copied.
func Kept(annotations map[string]string, o CopyOptions) string {
	_, skip := annotations[AnnotationSkip]
	_, allow := annotations[AnnotationAllow]
	switch {
	case o.Type == offv1.AllowList && !allow:
		return "it has no annotation " + AnnotationAllow
	case o.Type != offv1.AllowList && skip:
		return "it has annotation " + AnnotationSkip
	default:
		return ""
	}
}

// copyMetadata returns the metadata of the copy of an object of a resource.
func copyMetadata(resource string, local metav1.Object, namespace string, o CopyOptions) metav1.ObjectMeta {
	labels := without(local.GetLabels())
	annotations := without(local.GetAnnotations(), annotationLastApplied, AnnotationLabels, AnnotationAnnotations)
	drop(labels, o.LabelsNotReflected)
	drop(annotations, o.AnnotationsNotReflected)
	acceptMetadata(resource, labels, annotations, o.LabelsReflected, o.AnnotationsReflected)
	annotations[AnnotationLabels] = strings.Join(slices.Sorted(maps.Keys(labels)), ",")
	annotations[AnnotationAnnotations] = strings.Join(slices.Sorted(maps.Keys(without(annotations, AnnotationLabels))), ",")
	labels[api.LabelOrigin], labels[api.LabelDestination] = o.Origin, o.Destination
	return metav1.ObjectMeta{Name: local.GetName(), Namespace: namespace, Labels: labels, Annotations: annotations}
}

// silent are annotations that ask nothing of the controllers that lead traffic into a cluster: in which they, tools and clouds keep what they did.
var silent = []string{
	"cloud.google.com/neg-status", "ingress.kubernetes.io/*", "kubernetes.digitalocean.com/load-balancer-id", "loadbalancer.openstack.org/load-balancer-id",
	"metallb.universe.tf/ip-allocated-from-pool", "metallb.io/ip-allocated-from-pool",
	"kubectl.kubernetes.io/*", "meta.helm.sh/*", "helm.sh/*", "app.kubernetes.io/*", "checksum/*", "liqo.io/*", "offloading.liqo.io/*",
	"argocd.argoproj.io/*", "kustomize.toolkit.fluxcd.io/*", "helm.toolkit.fluxcd.io/*", "config.kubernetes.io/*", "field.cattle.io/*",
}

// unasked tells what an object of a resource that leads into the cluster asks of its controller by annotations that are not copied, nil if nothing. The
// copy goes without: a load balancer that was to be internal, or an Ingress behind a password, may be neither.
func unasked(resource string, local metav1.Object, o CopyOptions) error {
	asked := without(local.GetAnnotations(), annotationIngressClass)
	drop(asked, silent)
	copied := without(asked)
	drop(copied, o.AnnotationsNotReflected)
	acceptMetadata(resource, nil, copied, nil, o.AnnotationsReflected)
	maps.DeleteFunc(asked, func(key, _ string) bool { _, found := copied[key]; return found })
	if len(asked) == 0 {
		return nil
	}
	return fmt.Errorf("annotations %s are not copied, and what they ask for does not hold in cluster %s: if it must, keep the object here with annotation %s, or have the "+
		"administrators of both clusters accept them (chart values offloading.reflection.include.annotations here, offloading.acceptedMetadata.annotations.%s there)",
		strings.Join(slices.Sorted(maps.Keys(asked)), ", "), o.Destination, AnnotationSkip, resource)
}

// mergeMetadata gives have the labels and annotations of want. What the provider added stays; what came from here and is gone here is
// removed.
func mergeMetadata(have, want *metav1.ObjectMeta) {
	labels := without(have.Labels, strings.Split(have.Annotations[AnnotationLabels], ",")...)
	annotations := without(have.Annotations, strings.Split(have.Annotations[AnnotationAnnotations], ",")...)
	maps.Copy(labels, want.Labels)
	maps.Copy(annotations, want.Annotations)
	have.Labels, have.Annotations = labels, annotations
}

// merged returns have if out is the same, and what makes have of it.
func merged[T any](have, out *T) (*T, Change) {
	if equality.Semantic.DeepEqual(have, out) {
		return have, Same
	}
	return out, Update
}
