package app

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/offload"
	offloadcontrollers "liqo.io/liqo/internal/offload/controllers"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/internal/storage/move"
)

func setupOffloading(mgr ctrl.Manager, opts *ControllerManagerOptions) error {
	nodes, err := nodeAddresses(mgr)
	if err != nil {
		return err
	}
	out := offloadcontrollers.Options{
		ClusterID: opts.ClusterID, LiqoNamespace: opts.LiqoNamespace,
		GlobalLabels: opts.GlobalLabels, GlobalAnnotations: opts.GlobalAnnotations,
		Addresses: addresses{liqoNamespace: opts.LiqoNamespace, translate: opts.EnableNetworking, reported: opts.OwnCIDRs, nodes: nodes},
		RealNodes: nodes, EnforceQuotas: opts.EnforceResources, RuntimeClass: opts.RuntimeClass,
		ReplaceLostPods: opts.ReplaceLostPods, ProtectedNamespaces: opts.ProtectedNamespaces, PodMetadata: opts.PodMetadata,
		ChosenNamespaces: opts.ChosenNamespaces, RefusedNamespaces: opts.RefusedNamespaces, NamespaceLimit: opts.NamespaceLimit, NamespaceQuota: opts.NamespaceQuota,
		DefaultLimits: opts.DefaultLimits, Metrics: opts.Metrics,
	}
	if opts.EnableStorage {
		out.Volumes, out.VolumesOf = volumesInProviders, volumesOf
	}
	if opts.EnableNetworking {
		if out.OffloadedPods, err = offloadcontrollers.OffloadedPods(mgr); err != nil {
			return err
		}
	}
	return offloadcontrollers.Setup(mgr, out)
}

// volumesInProviders returns Liqo's volumes with data in a provider, or whose data is being moved there.
func volumesInProviders(ctx context.Context, c client.Reader) ([]offload.Volume, error) {
	var list corev1.PersistentVolumeList
	if err := c.List(ctx, &list, client.MatchingLabels{storage.LabelVirtual: api.True}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	var out []offload.Volume
	for i := range list.Items {
		out = append(out, volumesAmong(&list.Items[i], list.Items)...)
	}
	return out, nil
}

// volumesOf returns the data of a volume of Liqo in providers, for callers that only need its clusters and its claim.
func volumesOf(volume *corev1.PersistentVolume) []offload.Volume { return volumesAmong(volume, nil) }

// volumesAmong returns the data of a volume of Liqo in providers. all are all volumes of Liqo. Until a move of the volume has ended, this includes the copy, which
// must not be deleted. If the record of the move can't be read, the copy may be in any cluster.
func volumesAmong(volume *corev1.PersistentVolume, all []corev1.PersistentVolume) []offload.Volume {
	ref := volume.Spec.ClaimRef
	if ref == nil || volume.Labels[storage.LabelVirtual] != api.True {
		return nil
	}
	var out []offload.Volume
	one := offload.Volume{Name: volume.Name, Namespace: ref.Namespace, Claim: ref.Name, Size: volume.Spec.Capacity.Storage().String()}
	if target, err := move.TargetOf(volume); target != "" || err != nil {
		copied := one
		copied.Cluster, copied.Retain = target, true
		if err != nil {
			copied.Problem = err.Error()
		}
		out = append(out, copied)
	}
	if !storage.InProvider(volume) {
		return out
	}
	one.Cluster = volume.Labels[api.LabelRemoteClusterID]
	one.Retain = volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	one.Released = volume.Status.Phase == corev1.VolumeReleased && !storage.InMove(volume, all)
	return append(out, one)
}

// addresses provides the offloading module with facts about addresses in this cluster. The module calls it for every slice, so it only reads from
// caches, without copies.
type addresses struct {
	liqoNamespace string
	// translate is true if the networking module of Liqo connects the clusters. Addresses of peers may then be remapped.
	translate bool
	// reported are the ranges of this cluster that the installation sets, whatever network connects the clusters.
	reported []netip.Prefix
	// nodes reads the real nodes.
	nodes client.Reader
}

// Own returns the ranges that the addresses of a consumer must not be in: the ranges of this cluster set by its installation, the
// reserved ranges, the ranges given to other peers, and the addresses of the nodes.
func (a addresses) Own(ctx context.Context, c client.Reader, consumer string) ([]netip.Prefix, error) {
	var networks ipamv1alpha1.NetworkList
	if err := c.List(ctx, &networks, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Networks: %w", err)
	}
	own := slices.Clone(a.reported)
	for i := range networks.Items {
		if networks.Items[i].Labels[api.LabelRemoteClusterID] == consumer {
			continue // under this range, this cluster sees the consumer itself
		}
		if prefix, ok := rangeOf(&networks.Items[i]); ok {
			own = append(own, prefix)
		}
	}
	var nodes corev1.NodeList
	if err := a.nodes.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range nodes.Items {
		own = append(own, addressesOf(&nodes.Items[i])...)
	}
	return own, nil
}

// rangeOf returns the range of a Network.
func rangeOf(n *ipamv1alpha1.Network) (netip.Prefix, bool) {
	text := n.Status.CIDR
	if text == "" && n.Labels[ipamv1alpha1.LabelNetworkNotRemapped] == api.True { // the range is fixed by its spec
		text = n.Spec.CIDR
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix, err == nil
}

// addressesOf returns the addresses of a node.
func addressesOf(node *corev1.Node) []netip.Prefix {
	var out []netip.Prefix
	for _, address := range node.Status.Addresses {
		if ip, err := netip.ParseAddr(address.Address); err == nil {
			out = append(out, netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
	return out
}

// Translation returns a function that translates addresses of a consumer to addresses in this cluster, or else the reason why the translation
// is unknown. Only if the administrator has disabled the networking module (networking.enabled), addresses stay unchanged and the function is
// nil. In all other cases, a consumer without a Configuration could name any address that this cluster reaches, and its own endpoints would be
// unreachable.
func (a addresses) Translation(ctx context.Context, c client.Reader, consumer string) (func(netip.Addr) (netip.Addr, error), string, error) {
	if !a.translate {
		return nil, "", nil
	}
	var networks ipamv1alpha1.NetworkList
	if err := c.List(ctx, &networks, client.InNamespace(a.liqoNamespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, "", fmt.Errorf("listing Networks: %w", err)
	}
	var configurations networkingv1beta1.ConfigurationList
	if err := c.List(ctx, &configurations, client.UnsafeDisableDeepCopy); err != nil {
		return nil, "", fmt.Errorf("listing Configurations: %w", err)
	}
	found := false
	for i := range configurations.Items {
		found = found || concerns(&configurations.Items[i], consumer)
	}
	if !found {
		return nil, "no network connects cluster " + consumer + " with this one: there is no Configuration for it; run liqoctl network connect, or install with " +
			"networking.enabled=false if another network carries addresses as they are", nil
	}
	t, problems, ok := network.GatherTranslation(&network.Objects{
		LiqoNamespace: a.liqoNamespace, Networks: networks.Items, Configurations: configurations.Items,
	}, consumer)
	if ok {
		return t.ToView, "", nil
	}
	for _, p := range problems {
		if p.ClusterID == consumer {
			return nil, p.String(), nil
		}
	}
	return nil, "the ranges under which this cluster sees cluster " + consumer + " are unknown", nil
}

// Views returns the ranges under which this cluster sees a provider. It returns nothing while the provider is the only connected cluster: no
// other cluster could then reach the pods of the provider through this one, so the IP objects for them are not needed. An event of a
// Configuration triggers another call.
func (a addresses) Views(ctx context.Context, c client.Reader, provider string) ([]netip.Prefix, bool, error) {
	if !a.translate {
		return nil, true, nil
	}
	var configurations networkingv1beta1.ConfigurationList
	if err := c.List(ctx, &configurations, client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, fmt.Errorf("listing Configurations: %w", err)
	}
	joined, others := false, false
	for i := range configurations.Items {
		is := concerns(&configurations.Items[i], provider)
		joined, others = joined || is, others || !is && configurations.Items[i].DeletionTimestamp == nil
	}
	if !joined || !others {
		return nil, true, nil
	}
	t, _, ok := network.GatherTranslation(&network.Objects{LiqoNamespace: a.liqoNamespace, Configurations: configurations.Items}, provider)
	var views []netip.Prefix
	for _, pair := range slices.Concat(t.Pods, t.External) {
		views = append(views, pair.View)
	}
	return views, ok, nil
}

// concerns reports whether a Configuration belongs to a cluster.
func concerns(c *networkingv1beta1.Configuration, clusterID string) bool {
	id := c.Labels[api.LabelRemoteClusterID]
	if id == "" {
		id = c.Name
	}
	return c.DeletionTimestamp == nil && id == clusterID
}

// nodeAddresses returns a cache of the addresses of the real nodes. The cache of the manager only holds the virtual ones.
func nodeAddresses(mgr ctrl.Manager) (cache.Cache, error) {
	real, err := labels.NewRequirement(api.LabelType, selection.NotIn, []string{api.TypeVirtualNode})
	if err != nil {
		return nil, fmt.Errorf("selecting real nodes: %w", err)
	}
	nodes, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: {Label: labels.NewSelector().Add(*real), Transform: keepNodeAddresses}},
	})
	if err != nil {
		return nil, fmt.Errorf("creating a cache of nodes: %w", err)
	}
	if err := mgr.Add(nodes); err != nil {
		return nil, fmt.Errorf("adding the cache of nodes: %w", err)
	}
	return nodes, nil
}

// keepNodeAddresses reduces a Node to its name and addresses.
func keepNodeAddresses(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion},
		Status:     corev1.NodeStatus{Addresses: node.Status.Addresses},
	}, nil
}
