package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kubelet"
)

// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespaceoffloadings;virtualnodes,verbs=get;list;watch

// mappings maintains the NamespaceMap for each provider. The map exists while a VirtualNode of that cluster needs it, and requests the remote
// namespaces of all namespaces offloaded there. A reconcile request carries the cluster ID as its name. The map is derived from all existing
// VirtualNodes, so VirtualNodes can be deleted in any order without leaving a map behind.
type mappings struct {
	client.Client
	Options
}

func setupMapping(mgr ctrl.Manager, opts Options) error {
	r := &mappings{Client: mgr.GetClient(), Options: opts}
	controller := kube.NewController(mgr, "mapping").
		Watches(&offloadingv1beta1.VirtualNode{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
			node, ok := obj.(*offloadingv1beta1.VirtualNode)
			if !ok {
				return nil
			}
			return clusterRequest(node.Spec.ClusterID)
		})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
			return clusterRequest(obj.GetLabels()[api.LabelRemoteClusterID])
		}), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&offloadingv1beta1.NamespaceOffloading{}, handler.EnqueueRequestsFromMapFunc(r.allClusters), builder.WithPredicates(changedByUser)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.allClusters), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false }, UpdateFunc: becameTenant,
		})).
		Watches(&offloadingv1beta1.NamespaceMap{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
			if isCopy(obj) {
				return nil
			}
			return clusterRequest(obj.GetName())
		}), builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.NewPredicateFuncs(releases))))
	return r.watchVolumes(controller, func(ctx context.Context, volume *offload.Volume) []reconcile.Request {
		if volume.Cluster == "" {
			return r.allClusters(ctx, nil)
		}
		return clusterRequest(volume.Cluster)
	}).Complete(r)
}

// Reconcile maintains the NamespaceMap for the cluster whose ID is the name of the request. It is no kube.Reconciler, because a request names a cluster.
func (r *mappings) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	err := r.reconcile(ctx, req.Name)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) { // the cache lags behind: an event follows
		return reconcile.Result{RequeueAfter: staleDelay}, nil
	}
	return reconcile.Result{}, err
}

func (r *mappings) reconcile(ctx context.Context, cluster string) error {
	nodes, lost, err := nodesOf(ctx, r.Client, cluster)
	if err != nil {
		return err
	}
	existing, err := mapsTowards(ctx, r.Client, cluster)
	if err != nil {
		return err
	}
	var active []offloadingv1beta1.VirtualNode
	for i := range nodes {
		needs, err := needsMap(ctx, r.Client, &nodes[i])
		if err != nil {
			return err
		}
		if needs {
			active = append(active, nodes[i])
		}
	}
	volumes, err := r.volumes(ctx, r.Client)
	if err != nil {
		return err
	}
	if len(active) == 0 {
		foreign := &corev1beta1.ForeignCluster{}
		if _, err := exists(ctx, r.Client, foreign, client.ObjectKey{Name: cluster}); err != nil {
			return err
		}
		if len(offload.MapVolumes(cluster, nodes, volumes, foreign)) > 0 {
			return nil // the VirtualNodes have lost their finalizers: without the map, the provider would delete the data
		}
		return deleteMaps(ctx, r.Client, existing)
	}
	var offloadings offloadingv1beta1.NamespaceOffloadingList
	if err := r.List(ctx, &offloadings); err != nil {
		return fmt.Errorf("listing NamespaceOffloadings: %w", err)
	}
	protected, err := r.protected(ctx, r.Client, offloadings.Items)
	if err != nil {
		return err
	}
	m := &offloadingv1beta1.NamespaceMap{}
	m.Namespace, m.Name = active[0].Namespace, cluster
	changed, err := kube.Ensure(ctx, r.Client, m, func() error {
		if !m.DeletionTimestamp.IsZero() {
			return nil // recreated after its deletion
		}
		m.Labels = api.Layered(m.Labels, r.GlobalLabels, map[string]string{
			api.LabelReplication: api.True, api.LabelRemoteID: cluster, api.LabelRemoteClusterID: cluster,
		})
		desired := offload.DesiredMapping(offloadings.Items, active, lost, protected, r.ClusterID, m.Spec.DesiredMapping, volumes)
		m.Spec.DesiredMapping, m.Spec.ReleasedMapping = desired, offload.ReleasedMapping(m, desired)
		return nil
	})
	if changed && err == nil {
		ctrl.LoggerFrom(ctx).Info("Changed the requested remote namespaces", "clusterID", cluster, "count", len(m.Spec.DesiredMapping))
	}
	return err
}

// releases reports whether a NamespaceMap releases namespaces. Its status shows when the provider has deleted them.
func releases(obj client.Object) bool {
	m, is := obj.(*offloadingv1beta1.NamespaceMap)
	return is && len(m.Spec.ReleasedMapping) > 0
}

func (r *mappings) allClusters(ctx context.Context, _ client.Object) []reconcile.Request {
	var nodes offloadingv1beta1.VirtualNodeList
	if err := r.List(ctx, &nodes); err != nil {
		return nil // can't fail after the start: the cache holds this kind
	}
	var requests []reconcile.Request
	for _, id := range offload.Clusters(nodes.Items) {
		requests = append(requests, clusterRequest(id)...)
	}
	return requests
}

func clusterRequest(id string) []reconcile.Request {
	if id == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: id}}}
}

// nodesOf returns the VirtualNodes of a cluster, sorted by namespace and name. For lost see selectable.
func nodesOf(ctx context.Context, c client.Client, cluster string) (nodes []offloadingv1beta1.VirtualNode, lost sets.Set[string], err error) {
	list, lost, err := selectable(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	nodes = slices.DeleteFunc(list, func(n offloadingv1beta1.VirtualNode) bool { return n.Spec.ClusterID != cluster })
	slices.SortFunc(nodes, func(a, b offloadingv1beta1.VirtualNode) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return nodes, lost, nil
}

// mapsTowards returns our own NamespaceMaps for a cluster.
func mapsTowards(ctx context.Context, c client.Client, cluster string) ([]offloadingv1beta1.NamespaceMap, error) {
	var list offloadingv1beta1.NamespaceMapList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing NamespaceMaps: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(m offloadingv1beta1.NamespaceMap) bool { return isCopy(&m) || m.Name != cluster }), nil
}

// deleteMaps deletes NamespaceMaps, with all remote namespaces. It first releases the namespaces: a provider keeps those that have claims if only the map is deleted.
func deleteMaps(ctx context.Context, c client.Client, maps []offloadingv1beta1.NamespaceMap) error {
	for i := range maps {
		m := &maps[i]
		if len(m.Spec.DesiredMapping) > 0 {
			before := m.DeepCopy()
			m.Spec.DesiredMapping, m.Spec.ReleasedMapping = nil, offload.ReleasedMapping(m, nil)
			if err := c.Patch(ctx, m, client.MergeFrom(before)); err != nil {
				if client.IgnoreNotFound(err) == nil {
					continue
				}
				return fmt.Errorf("releasing the namespaces of NamespaceMap %s/%s: %w", m.Namespace, m.Name, err)
			}
		}
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		if err := kube.Delete(ctx, c, m); err != nil {
			return err
		}
	}
	return nil
}

// needsMap reports whether a VirtualNode still needs the NamespaceMap for its provider.
func needsMap(ctx context.Context, c client.Client, node *offloadingv1beta1.VirtualNode) (bool, error) {
	if node.DeletionTimestamp.IsZero() {
		return true, nil
	}
	deployed, err := exists(ctx, c, &appsv1.Deployment{}, client.ObjectKey{Namespace: node.Namespace, Name: kubelet.Name(node.Name)})
	if err != nil {
		return false, err
	}
	host, err := exists(ctx, c, &corev1.Node{}, client.ObjectKey{Name: node.Name})
	if err != nil {
		return false, err
	}
	first, err := namesake(ctx, c, node)
	if err != nil {
		return false, err
	}
	return offload.NeedsMap(node, deployed, host && first == nil), nil
}
