// Package kinds holds the rules of reflection, one file per kind, as pure functions. They compute the remote object for a local one, the remote state
// to copy back, and the differences between two objects. Nothing here reads or writes a cluster. The rules for pods are in podrules.
package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Annotations for the reflection of all kinds. Those of the user apply to all kinds except pods.
const (
	// AnnotationSkip, with any value, excludes an object from reflection. It applies to type DenyList.
	AnnotationSkip = "liqo.io/skip-reflection"
	// AnnotationAllow, with any value, includes an object in reflection. It applies to type AllowList.
	AnnotationAllow = "liqo.io/allow-reflection"
	// AnnotationLabels, on a copy or a ShadowPod, lists the keys of the labels that came from the local object, separated by commas. By this list, a stateless
	// process distinguishes a label that was removed from the local object from one that the provider added.
	AnnotationLabels = "offloading.liqo.io/labels"
	// AnnotationAnnotations, on a copy or a ShadowPod, lists the keys of the annotations that came from the local object, like AnnotationLabels for labels.
	AnnotationAnnotations = "offloading.liqo.io/annotations"
	// AnnotationLocalUID, on a ShadowPod, is the UID of the local Pod that it was created for. It distinguishes that Pod from a later Pod of the same
	// name.
	AnnotationLocalUID = "offloading.liqo.io/local-uid"
	// annotationLastApplied holds the manifest that kubectl last applied. It does not describe the copy.
	annotationLastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// CopyOptions holds the facts that the rules for objects of offloaded namespaces depend on, except for pods.
type CopyOptions struct {
	// Origin and Destination are the IDs of the consumer and the provider.
	Origin, Destination string
	// LabelsNotReflected and AnnotationsNotReflected are keys that are not copied; see podrules.Options.
	LabelsNotReflected, AnnotationsNotReflected []string
	// LabelsReflected and AnnotationsReflected are keys that are copied in addition to those of AcceptedMetadata.
	LabelsReflected, AnnotationsReflected []string
	// Type decides which objects are reflected; empty means DenyList.
	Type offloadingv1beta1.ReflectionType
	// Waiting, if not empty, is the reason why no decision is possible at the moment.
	Waiting string
	// Now is the current time of this cluster's clock, for Events. The zero time leaves timestamps of the provider unchanged.
	Now time.Time
}

// Change is the operation that a copy needs.
type Change int

// Changes.
const (
	// Same means that the copy is up to date.
	Same Change = iota
	// Update means that the copy can be updated in place.
	Update
	// Replace means that the copy has to be recreated: an immutable field differs.
	Replace
)

// Owns reports whether a remote object is a copy that this consumer created in this provider. Other objects must not be changed.
func Owns(remote metav1.Object, o CopyOptions) bool {
	labels := remote.GetLabels()
	return labels[api.LabelOrigin] == o.Origin && labels[api.LabelDestination] == o.Destination
}

// Kept returns why the user excludes an object from reflection, empty if it may be copied.
func Kept(annotations map[string]string, o CopyOptions) string {
	_, skip := annotations[AnnotationSkip]
	_, allow := annotations[AnnotationAllow]
	to, limited := annotations[api.AnnotationReflectTo]
	named := limited && slices.ContainsFunc(strings.Split(to, ","), func(id string) bool { return strings.TrimSpace(id) == o.Destination })
	allow = allow || named
	switch {
	case limited && !named:
		return "its annotation " + api.AnnotationReflectTo + " does not list cluster " + o.Destination
	case o.Type == offloadingv1beta1.AllowList && !allow:
		return "it has no annotation " + AnnotationAllow
	case o.Type != offloadingv1beta1.AllowList && skip:
		return "it has annotation " + AnnotationSkip
	default:
		return ""
	}
}

// Without returns a copy of a map without some keys.
func Without(in map[string]string, keys ...string) map[string]string {
	out := make(map[string]string, len(in)+3)
	maps.Copy(out, in)
	for _, key := range keys {
		delete(out, key)
	}
	return out
}

// Drop removes the keys that match a pattern from a map. A trailing * matches any suffix.
func Drop(m map[string]string, patterns []string) {
	for _, pattern := range patterns {
		prefix, wild := strings.CutSuffix(pattern, "*")
		if !wild {
			delete(m, pattern)
			continue
		}
		maps.DeleteFunc(m, func(key, _ string) bool { return strings.HasPrefix(key, prefix) })
	}
}

// copyMetadata returns the metadata for the copy of an object; resource selects the allow-list.
func copyMetadata(resource string, local metav1.Object, namespace string, o CopyOptions) metav1.ObjectMeta {
	labels := Without(local.GetLabels())
	annotations := Without(local.GetAnnotations(), annotationLastApplied, AnnotationLabels, AnnotationAnnotations)
	Drop(labels, o.LabelsNotReflected)
	Drop(annotations, o.AnnotationsNotReflected)
	acceptMetadata(resource, labels, annotations, o.LabelsReflected, o.AnnotationsReflected)
	Disown(labels, o.LabelsReflected)
	Disown(annotations, o.AnnotationsReflected)
	annotations[AnnotationLabels] = strings.Join(slices.Sorted(maps.Keys(labels)), ",")
	annotations[AnnotationAnnotations] = strings.Join(slices.Sorted(maps.Keys(Without(annotations, AnnotationLabels))), ",")
	labels[api.LabelOrigin], labels[api.LabelDestination] = o.Origin, o.Destination
	return metav1.ObjectMeta{Name: local.GetName(), Namespace: namespace, Labels: labels, Annotations: annotations}
}

// Disown removes the keys by which Helm and GitOps tools recognize what they manage, except those that an administrator of this cluster includes. Liqo manages a
// copy: a tool of the provider with an application of the same name would delete or adopt it.
func Disown(keys map[string]string, included []string) {
	maps.DeleteFunc(keys, func(key, _ string) bool {
		return slices.Contains([]string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"}, key) &&
			!matches(key, included)
	})
}

// silent lists annotations that request nothing from the controllers of load balancers and Ingresses. Controllers, tools and clouds use them to
// record their own state.
var silent = []string{
	"cloud.google.com/neg-status", "ingress.kubernetes.io/*", "kubernetes.digitalocean.com/load-balancer-id", "loadbalancer.openstack.org/load-balancer-id",
	"metallb.universe.tf/ip-allocated-from-pool", "metallb.io/ip-allocated-from-pool",
	"kubectl.kubernetes.io/*", "meta.helm.sh/*", "helm.sh/*", "app.kubernetes.io/*", "checksum/*", "liqo.io/*", "offloading.liqo.io/*",
	"argocd.argoproj.io/*", "kustomize.toolkit.fluxcd.io/*", "helm.toolkit.fluxcd.io/*", "config.kubernetes.io/*", "field.cattle.io/*",
}

// uncopied returns an error about annotations of a local Service or Ingress that its controller may act on, and that are not copied; nil if there are
// none. Such an object opens the cluster to outside traffic. Without these annotations, its copy may lack protection: a load balancer that should be
// internal may be public, and an Ingress that should require a password may be open.
func uncopied(resource string, local metav1.Object, o CopyOptions) error {
	asked := Without(local.GetAnnotations(), annotationIngressClass)
	Drop(asked, silent)
	copied := Without(asked)
	Drop(copied, o.AnnotationsNotReflected)
	acceptMetadata(resource, nil, copied, nil, o.AnnotationsReflected)
	maps.DeleteFunc(asked, func(key, _ string) bool { _, found := copied[key]; return found })
	if len(asked) == 0 {
		return nil
	}
	return fmt.Errorf("annotations %s are not copied, so they have no effect in cluster %s: if they must have effect, keep the object here with annotation %s, or have the "+
		"administrators of both clusters accept them (chart values offloading.reflection.include.annotations here, offloading.acceptedMetadata.annotations.%s there)",
		strings.Join(slices.Sorted(maps.Keys(asked)), ", "), o.Destination, AnnotationSkip, resource)
}

// mergeMetadata sets the labels and annotations of want on have. Entries that the provider added stay. Entries that came from the local object and no
// longer exist there are removed.
func mergeMetadata(have, want *metav1.ObjectMeta) {
	labels := Without(have.Labels, strings.Split(have.Annotations[AnnotationLabels], ",")...)
	annotations := Without(have.Annotations, strings.Split(have.Annotations[AnnotationAnnotations], ",")...)
	maps.Copy(labels, want.Labels)
	maps.Copy(annotations, want.Annotations)
	have.Labels, have.Annotations = labels, annotations
}

// merged compares have with out, its desired state. It returns have and Same if they are equal, else out and Update.
func merged[T any](have, out *T) (*T, Change) {
	if equality.Semantic.DeepEqual(have, out) {
		return have, Same
	}
	return out, Update
}
