package app

import (
	"fmt"

	"liqo.io/liqo/internal/volumes"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/network/facts"
	"liqo.io/liqo/internal/offload"
	offloadcontrollers "liqo.io/liqo/internal/offload/controllers"
)

func setupOffloading(mgr ctrl.Manager, opts *ControllerManagerOptions) error {
	nodes, err := nodeAddresses(mgr)
	if err != nil {
		return err
	}
	out := offloadingOptions(opts, nodes)
	if opts.EnableNetworking {
		if out.OffloadedPods, err = offloadcontrollers.OffloadedPods(mgr); err != nil {
			return err
		}
	}
	return offloadcontrollers.Setup(mgr, out)
}

// offloadingOptions returns the options that need no manager. nodes are the real nodes.
func offloadingOptions(opts *ControllerManagerOptions, nodes cache.Cache) offloadcontrollers.Options {
	return offloadcontrollers.Options{
		ClusterID: opts.ClusterID, LiqoNamespace: opts.LiqoNamespace,
		GlobalLabels: opts.GlobalLabels, GlobalAnnotations: opts.GlobalAnnotations,
		Addresses: facts.Addresses{LiqoNamespace: opts.LiqoNamespace, Translate: opts.EnableNetworking, Reported: opts.OwnCIDRs, Nodes: nodes},
		RealNodes: nodes, EnforceQuotas: opts.EnforceResources, RuntimeClass: opts.RuntimeClass,
		ReplaceLostPods: opts.ReplaceLostPods, ProtectedNamespaces: opts.ProtectedNamespaces, PodMetadata: opts.PodMetadata,
		ChosenNamespaces: opts.ChosenNamespaces, RefusedNamespaces: opts.RefusedNamespaces, NamespaceLimit: opts.NamespaceLimit,
		NamespaceQuota: offload.NamespaceHard(opts.NamespaceQuota, opts.NamespaceTotal), DefaultLimits: opts.DefaultLimits, Metrics: opts.Metrics,
		Volumes: volumes.InProviders, VolumesOf: volumes.Of, // also without storage: volumes of before still have data
	}
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
