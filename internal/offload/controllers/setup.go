// Package controllers does what package offload decides. On the consumer: NamespaceOffloadings become NamespaceMaps, ResourceSlices become
// VirtualNodes, and these become virtual kubelets. On the provider: NamespaceMaps become namespaces, and ShadowPods become Pods.
// Every cluster is both.
package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"time"

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
	"liqo.io/liqo/internal/offload"
)

// Options tells the controllers where they are.
type Options struct {
	// ClusterID of this cluster.
	ClusterID string
	// LiqoNamespace is where Liqo is installed.
	LiqoNamespace string
	// GlobalLabels and GlobalAnnotations are put on everything that is made.
	GlobalLabels, GlobalAnnotations map[string]string
	// ShadowPodWorkers is how many ShadowPods are handled at a time; 0 means 10.
	ShadowPodWorkers int
	// ReplaceLostPods removes the Pods of ShadowPods that were evicted from nodes here that have failed, so that others take their place.
	ReplaceLostPods bool
	// RefusedNamespaces are names that no consumer gets for a namespace here, as patterns; NamespaceLimit is how many each gets, 0 for any number.
	RefusedNamespaces []string
	NamespaceLimit    int
	// PodMetadata says which annotations and labels Pods of consumers may have here.
	PodMetadata offload.PodMetadata
	// ProtectedNamespaces are names of namespaces here that are never offloaded, as patterns, beside those of offload.ProtectedNamespaces.
	ProtectedNamespaces []string
	// NamespaceQuota is what may be in each of them (spec.hard of a ResourceQuota); none when empty.
	NamespaceQuota corev1.ResourceList
	// RuntimeClass whose pods Kubernetes itself sends to virtual nodes.
	RuntimeClass string
	// EnforceQuotas holds ShadowPods back that exceed what is granted to their creators.
	EnforceQuotas bool
	// Addresses knows the network; nil means that addresses are nobody's concern.
	Addresses Addresses
	// RealNodes reads the nodes that are no virtual ones, of which the manager's cache has none; nil means that nothing follows from them.
	RealNodes cache.Cache
	// OffloadedPods reads the Pods here that run in providers (label liqo.io/shadowPod), of which the manager's cache has none; nil means that
	// none gets an address for other peers.
	OffloadedPods cache.Cache
	// Live reads past the cache; nil means the manager's reader.
	Live client.Reader
	// Now is the clock; nil means the machine's.
	Now func() time.Time
}

// Addresses tells what addresses mean in this cluster.
type Addresses interface {
	// Own returns the ranges and addresses that belong to this cluster itself, or to others than the consumer.
	Own(ctx context.Context, c client.Reader, consumer string) ([]netip.Prefix, error)
	// Views returns the ranges in which a provider is seen here, none if no network of ours joins it; false while they are not known yet.
	Views(ctx context.Context, c client.Reader, provider string) ([]netip.Prefix, bool, error)
	// Translation returns where addresses appear here that a consumer tells of, nil if they stay as they are; or what it waits for.
	Translation(ctx context.Context, c client.Reader, consumer string) (translate func(netip.Addr) (netip.Addr, error), waiting string, err error)
}

const defaultShadowPodWorkers = 10

// Cache returns the selectors that keep the manager's cache to what these controllers need. Kinds that others read as well (Namespace,
// and all of ours) are not restricted.
func Cache() map[client.Object]cache.ByObject {
	label := func(key, value string) labels.Selector { return labels.SelectorFromSet(labels.Set{key: value}) }
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}: {
			Label:     label(offloadingv1beta1.LabelManagedBy, offloadingv1beta1.ManagedByShadowPod),
			Transform: stripPod,
		},
		&corev1.Node{}: {
			Label:     label(api.LabelType, api.TypeVirtualNode),
			Transform: stripNode,
		},
		&discoveryv1.EndpointSlice{}: {Label: label(offloadingv1beta1.LabelManagedBy, offloadingv1beta1.ManagedByShadowEndpointSlice)},
		&appsv1.Deployment{}: {
			Label: label(offloadingv1beta1.LabelComponent, offloadingv1beta1.ComponentVirtualKubelet),
		},
		&corev1.ServiceAccount{}:     {Label: label(offload.LabelManagedBy, offload.ManagedBy)},
		&rbacv1.RoleBinding{}:        {Label: label(offload.LabelManagedBy, offload.ManagedBy)},
		&rbacv1.ClusterRoleBinding{}: {Label: label(offload.LabelManagedBy, offload.ManagedBy)},
		&corev1.ResourceQuota{}:      {Label: label(offload.LabelManagedBy, offload.ManagedBy)},
	}
}

// Setup adds the controllers to a manager whose cache has the selectors of Cache.
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

// now is the time in the precision that the API keeps.
func (o *Options) now() metav1.Time { return metav1.NewTime(o.Now().Truncate(time.Second)) }

// isCopy tells whether an object came here from another cluster.
func isCopy(obj client.Object) bool { return obj.GetLabels()[api.LabelReplicated] == api.True }
