// Package controllers executes the decisions of package offload. On the consumer, NamespaceOffloadings become NamespaceMaps, ResourceSlices become
// VirtualNodes, and VirtualNodes become virtual kubelets. On the provider, NamespaceMaps become namespaces, and ShadowPods become Pods. Every cluster
// runs the controllers of both roles.
//
// A kube.Reconciler handles one existing object. Four controllers do not use it. The requests of controller mapping are cluster IDs. Controller
// shadowpod also handles deleted ShadowPods. Controllers podip and nodefailure handle Pods, whose status belongs to other programs.
package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// Options configure the controllers.
type Options struct {
	// ClusterID is the ID of this cluster.
	ClusterID string
	// LiqoNamespace is the namespace in which Liqo is installed.
	LiqoNamespace string
	// GlobalLabels and GlobalAnnotations are added to all created objects.
	GlobalLabels, GlobalAnnotations map[string]string
	// ShadowPodWorkers is the number of ShadowPods reconciled in parallel; 0 means 10.
	ShadowPodWorkers int
	// ReplaceLostPods enables the deletion of ShadowPods' Pods that were evicted from failed nodes of this cluster, so that they are replaced.
	ReplaceLostPods bool
	// ChosenNamespaces are patterns of namespace names that consumers may choose here, RefusedNamespaces those that no consumer gets. NamespaceLimit
	// is the maximum number of namespaces per consumer, 0 for no limit. See offload.NamespacePolicy.
	ChosenNamespaces, RefusedNamespaces []string
	NamespaceLimit                      int
	// PodMetadata defines the annotations and labels that Pods of consumers may have in this cluster.
	PodMetadata offload.PodMetadata
	// ProtectedNamespaces are patterns of local namespaces that are never offloaded, in addition to those of offload.ProtectedNamespaces.
	ProtectedNamespaces []string
	// NamespaceQuota is the spec.hard of a ResourceQuota for each namespace of a consumer; empty means no ResourceQuota.
	NamespaceQuota corev1.ResourceList
	// DefaultLimits are the limits of containers in the namespaces of consumers that declare none; empty means no LimitRange.
	DefaultLimits corev1.ResourceList
	// RuntimeClass is the RuntimeClass whose pods Kubernetes schedules on virtual nodes by itself.
	RuntimeClass string
	// EnforceQuotas holds back ShadowPods that exceed the Quota of their creator.
	EnforceQuotas bool
	// Addresses gives access to the network configuration; nil disables all checks and translation of addresses.
	Addresses Addresses
	// RealNodes is a cache of the nodes that are not virtual, which the manager's cache lacks; nil means that changes of such nodes trigger nothing.
	RealNodes cache.Cache
	// OffloadedPods is a cache of the local Pods that run in providers (label liqo.io/shadowPod), which the manager's cache lacks; nil means that
	// these Pods get no addresses for other peers.
	OffloadedPods cache.Cache
	// ConsumerSecrets is a cache of the metadata of the Secrets that consumers created; nil means that the API server counts all Secrets in their namespaces.
	ConsumerSecrets cache.Cache
	// Volumes returns the volumes of claims of this cluster whose data is in providers, from a cache that holds PersistentVolumes; nil if there can
	// be none. The controllers set the field Ending.
	Volumes func(ctx context.Context, c client.Reader) ([]offload.Volume, error)
	// VolumesOf returns what a single PersistentVolume contributes to Volumes.
	VolumesOf func(*corev1.PersistentVolume) []offload.Volume
	// Live reads without the cache; nil means the manager's API reader.
	Live client.Reader
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
	// Metrics registers the metrics of quotas; nil means no metrics.
	Metrics prometheus.Registerer
}

// Addresses gives access to the address ranges of this cluster and its peers.
type Addresses interface {
	// Own returns the ranges and addresses that belong to this cluster itself, or to peers other than the consumer.
	Own(ctx context.Context, c client.Reader, consumer string) ([]netip.Prefix, error)
	// Views returns the ranges in which this cluster sees a provider, none if no network of Liqo connects it; false while they are unknown.
	Views(ctx context.Context, c client.Reader, provider string) ([]netip.Prefix, bool, error)
	// Translation returns a function that translates a consumer's addresses into those under which this cluster sees them; nil means no translation.
	// A non-empty waiting is the reason why the translation is not available yet.
	Translation(ctx context.Context, c client.Reader, consumer string) (translate func(netip.Addr) (netip.Addr, error), waiting string, err error)
}

const defaultShadowPodWorkers = 10

// Cache returns the selectors that restrict the manager's cache to the objects that these controllers need. Kinds that other components read as well
// (Namespace, and all kinds of Liqo) are not restricted.
func Cache() map[client.Object]cache.ByObject {
	label := func(key, value string) labels.Selector { return labels.SelectorFromSet(labels.Set{key: value}) }
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}: {
			Label:     label(offloadingv1beta1.LabelManagedBy, offloadingv1beta1.ManagedByShadowPod),
			Transform: stripPod,
		},
		&corev1.Node{}: {
			Label:     label(api.LabelType, api.TypeVirtualNode),
			Transform: kube.Reduced(stripNode),
		},
		&discoveryv1.EndpointSlice{}: {Label: label(offloadingv1beta1.LabelManagedBy, offloadingv1beta1.ManagedByShadowEndpointSlice)},
		&appsv1.Deployment{}: {
			Label: label(offloadingv1beta1.LabelComponent, offloadingv1beta1.ComponentVirtualKubelet),
		},
		&corev1.Service{}: {
			Label: label(offloadingv1beta1.LabelComponent, offloadingv1beta1.ComponentVirtualKubelet),
		},
		&corev1.ServiceAccount{}:     {Label: label(offload.LabelManagedBy, offload.ManagedBy)},
		&rbacv1.RoleBinding{}:        {Label: label(offload.LabelManagedBy, offload.ManagedBy)},
		&rbacv1.ClusterRoleBinding{}: {Label: label(offload.LabelManagedBy, offload.ManagedBy)},
		&corev1.ResourceQuota{}:      {Label: label(offload.LabelManagedBy, offload.ManagedBy)},
		&corev1.LimitRange{}:         {Label: label(offload.LabelManagedBy, offload.ManagedBy)},
	}
}

// Setup adds the controllers to a manager whose cache uses the selectors of Cache.
func Setup(mgr ctrl.Manager, opts Options) error {
	if opts.ClusterID == "" || opts.LiqoNamespace == "" {
		return fmt.Errorf("setting up offloading: cluster ID %q or Liqo namespace %q is empty", opts.ClusterID, opts.LiqoNamespace)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.ShadowPodWorkers == 0 {
		opts.ShadowPodWorkers = defaultShadowPodWorkers
	}
	if opts.Live == nil {
		opts.Live = mgr.GetAPIReader()
	}
	for _, c := range []struct {
		name  string
		setup func(ctrl.Manager, Options) error
	}{
		{"namespaceoffloading", setupNamespaceOffloading},
		{"mapping", setupMapping},
		{"namespacemap", setupNamespaceMap},
		{"shadowpod", setupShadowPod},
		{"nodefailure", setupLostPods},
		{"shadowendpointslice", setupShadowEndpointSlice},
		{"podip", setupPodIP},
		{"virtualnode", setupVirtualNode},
		{"resourceslice-virtualnode", setupVirtualNodeCreation},
	} {
		if err := c.setup(mgr, opts); err != nil {
			return fmt.Errorf("setting up controller %s: %w", c.name, err)
		}
	}
	return nil
}

// now returns the current time with the precision of the API, one second.
func (o *Options) now() metav1.Time { return metav1.NewTime(o.Now().Truncate(time.Second)) }

// isCopy reports whether an object was replicated from another cluster.
func isCopy(obj client.Object) bool { return obj.GetLabels()[api.LabelReplicated] == api.True }
