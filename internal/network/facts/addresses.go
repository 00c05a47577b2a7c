package facts

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/network"
)

// Addresses provides the offloading module with facts about addresses in this cluster. The module calls it for every slice, so it only reads from
// caches, without copies.
type Addresses struct {
	LiqoNamespace string
	// Translate is true if the networking module of Liqo connects the clusters. Addresses of peers may then be remapped.
	Translate bool
	// Reported are the ranges of this cluster that the installation sets, whatever network connects the clusters.
	Reported []netip.Prefix
	// Nodes reads the real nodes.
	Nodes client.Reader
}

// Own returns the ranges that the addresses of a consumer must not be in: the ranges of this cluster set by its installation, the
// reserved ranges, the ranges given to other peers, and the addresses of the nodes.
func (a Addresses) Own(ctx context.Context, c client.Reader, consumer string) ([]netip.Prefix, error) {
	var networks ipamv1alpha1.NetworkList
	if err := c.List(ctx, &networks, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Networks: %w", err)
	}
	own := slices.Clone(a.Reported)
	for i := range networks.Items {
		if networks.Items[i].Labels[api.LabelRemoteClusterID] == consumer {
			continue // under this range, this cluster sees the consumer itself
		}
		if prefix, ok := ipam.RangeOf(&networks.Items[i]); ok {
			own = append(own, prefix)
		}
	}
	var nodes corev1.NodeList
	if err := a.Nodes.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range nodes.Items {
		own = append(own, ipam.NodeAddresses(&nodes.Items[i])...)
	}
	return own, nil
}

// Translation returns a function that translates addresses of a consumer to addresses in this cluster, or else the reason why the translation
// is unknown. Only if the administrator has disabled the networking module (networking.enabled), addresses stay unchanged and the function is
// nil. In all other cases, a consumer without a Configuration could name any address that this cluster reaches, and its own endpoints would be
// unreachable.
func (a Addresses) Translation(ctx context.Context, c client.Reader, consumer string) (func(netip.Addr) (netip.Addr, error), string, error) {
	if !a.Translate {
		return nil, "", nil
	}
	var networks ipamv1alpha1.NetworkList
	if err := c.List(ctx, &networks, client.InNamespace(a.LiqoNamespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, "", fmt.Errorf("listing Networks: %w", err)
	}
	var configurations networkingv1beta1.ConfigurationList
	if err := c.List(ctx, &configurations, client.UnsafeDisableDeepCopy); err != nil {
		return nil, "", fmt.Errorf("listing Configurations: %w", err)
	}
	found := false
	for i := range configurations.Items {
		found = found || network.Connects(&configurations.Items[i], consumer)
	}
	if !found {
		return nil, "no network connects cluster " + consumer + " with this one: there is no Configuration for it; run liqoctl network connect, or install with " +
			"networking.enabled=false if another network carries addresses as they are", nil
	}
	t, problems, ok := network.GatherTranslation(&network.Objects{
		LiqoNamespace: a.LiqoNamespace, Networks: networks.Items, Configurations: configurations.Items,
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
func (a Addresses) Views(ctx context.Context, c client.Reader, provider string) ([]netip.Prefix, bool, error) {
	if !a.Translate {
		return nil, true, nil
	}
	var configurations networkingv1beta1.ConfigurationList
	if err := c.List(ctx, &configurations, client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, fmt.Errorf("listing Configurations: %w", err)
	}
	joined, others := false, false
	for i := range configurations.Items {
		is := network.Connects(&configurations.Items[i], provider)
		joined, others = joined || is, others || !is && configurations.Items[i].DeletionTimestamp == nil
	}
	if !joined || !others {
		return nil, true, nil
	}
	t, _, ok := network.GatherTranslation(&network.Objects{LiqoNamespace: a.LiqoNamespace, Configurations: configurations.Items}, provider)
	var views []netip.Prefix
	for _, pair := range slices.Concat(t.Pods, t.External) {
		views = append(views, pair.View)
	}
	return views, ok, nil
}
