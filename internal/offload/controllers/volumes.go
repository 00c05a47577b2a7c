package controllers

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// volumes returns the volumes whose data is in providers, none if this cluster has no storage of Liqo. It leaves out volumes whose remote namespace
// was deleted: claims stay bound to their volumes even without the data.
func (o *Options) volumes(ctx context.Context, c client.Reader) ([]offload.Volume, error) {
	if o.Volumes == nil {
		return nil, nil
	}
	volumes, err := o.Volumes(ctx, c)
	if err != nil || len(volumes) == 0 {
		return nil, err
	}
	var maps offloadingv1beta1.NamespaceMapList
	if err := c.List(ctx, &maps); err != nil {
		return nil, fmt.Errorf("listing NamespaceMaps: %w", err)
	}
	volumes = offload.Located(volumes, maps.Items)
	ending := map[string]bool{}
	for i := range volumes {
		v := &volumes[i]
		if _, known := ending[v.Namespace]; !known {
			namespace := &corev1.Namespace{}
			found, err := exists(ctx, c, namespace, client.ObjectKey{Name: v.Namespace})
			if err != nil {
				return nil, err
			}
			ending[v.Namespace] = !found || !namespace.DeletionTimestamp.IsZero()
		}
		v.Ending = ending[v.Namespace]
	}
	return volumes, nil
}

// watchVolumes adds a watch of volumes whose data is in a provider, or is being moved there, to a controller. requests returns the objects whose
// deletion such a volume may block. The cluster of the volume is empty if it may be in any cluster.
func (o *Options) watchVolumes(
	b *builder.Builder, requests func(ctx context.Context, volume *offload.Volume) []reconcile.Request,
) *builder.Builder {
	if o.Volumes == nil {
		return b
	}
	return b.Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(o.volumeRequests(requests)))
}

func (o *Options) volumeRequests(
	requests func(ctx context.Context, volume *offload.Volume) []reconcile.Request,
) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		volume, ok := obj.(*corev1.PersistentVolume)
		if !ok {
			return nil
		}
		var out []reconcile.Request
		for _, v := range o.VolumesOf(volume) {
			out = append(out, requests(ctx, &v)...)
		}
		return out
	}
}

// changedByUser ignores updates of the status. Changes of annotations count, since one of them allows the deletion of the data.
var changedByUser = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})

// keepVolumes returns a wait error while the deletion of a VirtualNode would delete data of volumes, and lists them in a condition.
func (r *virtualNodes) keepVolumes(ctx context.Context, node *offloadingv1beta1.VirtualNode) error {
	volumes, err := r.volumes(ctx, r.Client)
	if err != nil || len(volumes) == 0 {
		return err
	}
	var nodes offloadingv1beta1.VirtualNodeList
	if err := r.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing VirtualNodes: %w", err)
	}
	foreign := &corev1beta1.ForeignCluster{}
	if _, err := exists(ctx, r.Client, foreign, client.ObjectKey{Name: node.Spec.ClusterID}); err != nil {
		return err
	}
	kept := offload.NodeVolumes(node, nodes.Items, volumes, foreign)
	if len(kept) == 0 {
		return nil
	}
	message := offload.VolumesMessage(kept, "virtualnode", node.Namespace, node.Name)
	known := slices.ContainsFunc(node.Status.Conditions, func(c offloadingv1beta1.VirtualNodeCondition) bool {
		return c.Type == offloadingv1beta1.VirtualNodeNode && c.Reason == offloadingv1beta1.ReasonVolumesKept
	})
	if !known {
		r.events.Eventf(node, nil, corev1.EventTypeWarning, offloadingv1beta1.ReasonVolumesKept, "Delete", "%s", message)
	}
	r.condition(node, offloadingv1beta1.VirtualNodeNode, offloadingv1beta1.VirtualNodeRunning, offloadingv1beta1.ReasonVolumesKept, message)
	return kube.Wait(offloadingv1beta1.ReasonVolumesKept, "%s", message)
}

// offloadingOf returns a request for the NamespaceOffloading of the claim of a volume.
func offloadingOf(_ context.Context, volume *offload.Volume) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: volume.Namespace, Name: offloadingv1beta1.NamespaceOffloadingName}}}
}
