package app

import (
	"context"
	"fmt"

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
		Addresses: facts.Addresses{LiqoNamespace: opts.LiqoNamespace, Translate: opts.EnableNetworking, Reported: opts.OwnCIDRs, Nodes: nodes},
		RealNodes: nodes, EnforceQuotas: opts.EnforceResources, RuntimeClass: opts.RuntimeClass,
		ReplaceLostPods: opts.ReplaceLostPods, ProtectedNamespaces: opts.ProtectedNamespaces, PodMetadata: opts.PodMetadata,
		ChosenNamespaces: opts.ChosenNamespaces, RefusedNamespaces: opts.RefusedNamespaces, NamespaceLimit: opts.NamespaceLimit,
		NamespaceQuota: offload.NamespaceHard(opts.NamespaceQuota, opts.NamespaceTotal), DefaultLimits: opts.DefaultLimits, Metrics: opts.Metrics,
		Volumes: volumesInProviders, VolumesOf: volumesOf, // also without storage: volumes of before still have data
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
	if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	list.Items = storage.Virtual(list.Items)
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
	data := storage.DataOf(volume)
	if data.Name == "" || storage.VolumeUID(volume) == "" {
		return nil
	}
	var out []offload.Volume
	one := offload.Volume{Name: volume.Name, Namespace: data.Namespace, Claim: data.Name, Size: volume.Spec.Capacity.Storage().String()}
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
	one.Cluster = storage.ClusterOf(volume)
	// Neither the end of a claim nor that of its namespace deletes the data of a volume that has no claim, or that a claim of another name uses. With policy Delete,
	// the data is to be deleted only once Kubernetes has released the volume. A recovered volume holds the remote namespace for others, too; see storage.RecoveredLimit.
	waits := storage.Unclaimed(volume) && volume.Status.Phase != corev1.VolumeReleased
	one.Retain = volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain || waits || storage.ReservedFor(volume) != data ||
		storage.IsRecovered(volume)
	one.Released = storage.Unclaimed(volume) && !storage.InMove(volume, all)
	return append(out, one)
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
