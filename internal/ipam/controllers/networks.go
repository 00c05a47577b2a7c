package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=ipam.liqo.io,resources=networks,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=networks/status,verbs=patch
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips,verbs=get;list;watch
// +kubebuilder:rbac:groups=core,resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=core,resources=services,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// networks gives Networks their ranges.
type networks struct {
	client client.Client
	live   client.Reader
	events events.EventRecorder
	pools  []netip.Prefix
	// apiServer is Options.APIServer.
	apiServer string
	external  types.NamespacedName
	pending   pendingAllocations
}

// Reconcile plans all Networks. It is no kube.Reconciler, because it decides about all objects together.
func (r *networks) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var list ipamv1alpha1.NetworkList
	if err := r.client.List(ctx, &list); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing Networks: %w", err)
	}
	current, pause, err := r.pending.current(ctx, networkEntries(&list), func(ctx context.Context) (entries, error) {
		var there ipamv1alpha1.NetworkList
		err := r.live.List(ctx, &there)
		return networkEntries(&there), err
	})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("listing Networks: %w", err)
	}
	if !current {
		return reconcile.Result{RequeueAfter: pause}, nil
	}
	var ips ipamv1alpha1.IPList
	if err := r.client.List(ctx, &ips, client.UnsafeDisableDeepCopy); err != nil { // IPs are only read
		return reconcile.Result{}, fmt.Errorf("listing IPs: %w", err)
	}
	hosts, err := r.hosts(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	plan := ipam.Networks(ipam.NetworkObjects{Networks: list.Items, Pools: r.pools, Hosts: hosts})
	holders := r.holders(ips.Items)
	var out outcomes
	var group errgroup.Group
	group.SetLimit(writers)
	for i := range list.Items {
		n := &list.Items[i]
		group.Go(func() error {
			key := client.ObjectKeyFromObject(n)
			if n.DeletionTimestamp.IsZero() {
				out.add(r.give(ctx, n, plan[key]))
			} else {
				out.add(r.release(ctx, n, holders[key]))
			}
			return nil
		})
	}
	_ = group.Wait() // errors are in out
	if out.behind {
		return reconcile.Result{RequeueAfter: behindDelay}, out.err()
	}
	return reconcile.Result{}, out.err()
}

// Objects that hold the addresses of the API servers and of the cluster DNS.
const (
	apiServerNamespace = metav1.NamespaceDefault
	apiServerService   = "kubernetes"
	dnsNamespace       = metav1.NamespaceSystem
	labelDNS           = "k8s-app"
	dnsApp             = "kube-dns"
)

// hosts returns the addresses of the nodes, the API servers, their load balancer if the installation names it, and the cluster DNS. It reads from the watch cache of the API server
// (resourceVersion "0"), which is fresh enough; this happens only a few times in the life of a peering.
func (r *networks) hosts(ctx context.Context) ([]ipam.Host, error) {
	out, err := r.nodes(ctx)
	if err != nil {
		return nil, err
	}
	out = append(out, loadBalancer(r.apiServer)...)
	add := func(name string, addresses ...string) {
		for _, text := range addresses {
			if addr, err := netip.ParseAddr(text); err == nil {
				out = append(out, ipam.Host{Name: name, Addr: addr})
			}
		}
	}
	var slices discoveryv1.EndpointSliceList
	cached := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}
	if err := r.live.List(ctx, &slices, cached, client.InNamespace(apiServerNamespace), client.MatchingLabels{discoveryv1.LabelServiceName: apiServerService}); err != nil {
		return nil, fmt.Errorf("listing the EndpointSlices of the API server: %w", err)
	}
	for i := range slices.Items {
		for _, endpoint := range slices.Items[i].Endpoints {
			add("the API server", endpoint.Addresses...)
		}
	}
	for namespace, selector := range map[string]client.ListOption{
		apiServerNamespace: client.MatchingFields{"metadata.name": apiServerService}, dnsNamespace: client.MatchingLabels{labelDNS: dnsApp},
	} {
		var services corev1.ServiceList
		if err := r.live.List(ctx, &services, cached, client.InNamespace(namespace), selector); err != nil {
			return nil, fmt.Errorf("listing Services in namespace %s: %w", namespace, err)
		}
		for i := range services.Items {
			service := &services.Items[i]
			add(fmt.Sprintf("Service %s/%s", service.Namespace, service.Name), service.Spec.ClusterIPs...)
		}
	}
	return out, nil
}

// loadBalancer returns the address in the URL of an API server, which may be that of a load balancer. It returns none if the URL has a host name.
func loadBalancer(apiServer string) []ipam.Host {
	at, err := url.Parse(apiServer)
	if err != nil {
		return nil
	}
	addr, err := netip.ParseAddr(at.Hostname())
	if err != nil {
		return nil
	}
	return []ipam.Host{{Name: "the API server at " + apiServer, Addr: addr}}
}

// nodes returns the addresses of the real nodes.
func (r *networks) nodes(ctx context.Context) ([]ipam.Host, error) {
	var nodes corev1.NodeList
	if err := r.live.List(ctx, &nodes, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	var out []ipam.Host
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if node.Labels[api.LabelType] == api.TypeVirtualNode {
			continue // it has the address of the pod of a virtual kubelet
		}
		for _, address := range node.Status.Addresses {
			if addr, err := netip.ParseAddr(address.Address); err == nil {
				out = append(out, ipam.Host{Name: "node " + node.Name, Addr: addr})
			}
		}
	}
	return out, nil
}

// holders returns one IP for each Network from which an IP has an address.
func (r *networks) holders(ips []ipamv1alpha1.IP) map[types.NamespacedName]types.NamespacedName {
	out := map[types.NamespacedName]types.NamespacedName{}
	for i := range ips {
		if ips[i].Status.IP != "" {
			out[ipam.NetworkOf(&ips[i], r.external)] = client.ObjectKeyFromObject(&ips[i])
		}
	}
	return out
}

// give writes the planned range to a Network.
func (r *networks) give(ctx context.Context, n *ipamv1alpha1.Network, plan ipam.NetworkPlan) error {
	if n.Annotations[ipamv1alpha1.AnnotationPreinstalled] != api.True {
		before := n.DeepCopy()
		if controllerutil.AddFinalizer(n, ipamv1alpha1.FinalizerNetwork) {
			if err := patch(ctx, r.client, n, before, "adding the finalizer to Network"); err != nil {
				return err
			}
		}
	}
	before := n.DeepCopy()
	given := ""
	if plan.CIDR.IsValid() {
		given = plan.CIDR.String()
	}
	n.Status.CIDR = given
	if n.Status.CIDR == "" {
		n.Status.CIDR = before.Status.CIDR // a range in the status stays, even if it cannot be parsed
	}
	reported := meta.FindStatusCondition(before.Status.Conditions, kube.ConditionReady)
	meta.SetStatusCondition(&n.Status.Conditions, readyCondition(n.Generation, plan.Problem))
	written, err := patchStatus(ctx, r.client, n, before, "Network")
	if written || err != nil {
		r.pending.wrote(client.ObjectKeyFromObject(n), entry{n.UID, n.Status.CIDR}, err)
	}
	if err != nil || !written {
		return err
	}
	if plan.Instead != "" && before.Status.CIDR == "" {
		r.events.Eventf(n, nil, corev1.EventTypeNormal, reasons.Remapped, "Give",
			"range %s appears as %s in this cluster, because it %s", n.Spec.CIDR, given, plan.Instead)
	}
	report(r.events, n, reported, plan.Problem, "Give")
	return nil
}

// release removes the finalizer of a Network unless an IP has an address of it.
func (r *networks) release(ctx context.Context, n *ipamv1alpha1.Network, holder types.NamespacedName) error {
	before := n.DeepCopy()
	if holder != (types.NamespacedName{}) && controllerutil.ContainsFinalizer(n, ipamv1alpha1.FinalizerNetwork) {
		reported := meta.FindStatusCondition(before.Status.Conditions, kube.ConditionReady)
		inUse := ipam.Problem{
			Reason: reasons.InUse, Message: fmt.Sprintf("waiting for IP %s, and maybe others, to be deleted: it has an address of this Network", holder),
		}
		meta.SetStatusCondition(&n.Status.Conditions, readyCondition(n.Generation, inUse))
		if written, err := patchStatus(ctx, r.client, n, before, "Network"); err != nil || !written {
			return err
		}
		report(r.events, n, reported, inUse, "Release")
		return nil
	}
	if !controllerutil.RemoveFinalizer(n, ipamv1alpha1.FinalizerNetwork) {
		return nil
	}
	return patch(ctx, r.client, n, before, "removing the finalizer of Network")
}

func networkEntries(list *ipamv1alpha1.NetworkList) entries {
	out := make(entries, len(list.Items))
	for i := range list.Items {
		n := &list.Items[i]
		out[client.ObjectKeyFromObject(n)] = entry{n.UID, n.Status.CIDR}
	}
	return out
}
