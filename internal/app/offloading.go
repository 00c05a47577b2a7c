package app

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network/facts"
	"liqo.io/liqo/internal/offload"
	offloadcontrollers "liqo.io/liqo/internal/offload/controllers"
	"liqo.io/liqo/internal/volumes"
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
	if slices.Contains(offload.Countable(out.NamespaceQuota), offload.CountSecrets) {
		if out.ConsumerSecrets, err = offloadcontrollers.ConsumerSecrets(mgr); err != nil {
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
	return kube.NewCache(mgr, "nodes", map[client.Object]cache.ByObject{
		&corev1.Node{}: {Label: kube.Selecting(api.LabelType, selection.NotIn, api.TypeVirtualNode), Transform: kube.Reduced(func(node *corev1.Node) *corev1.Node {
			return &corev1.Node{ObjectMeta: kube.Identity(&node.ObjectMeta), Status: corev1.NodeStatus{Addresses: node.Status.Addresses}}
		})},
	})
}
