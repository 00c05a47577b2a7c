package controllers

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips,verbs=get;list;watch;create;delete

// podIPs creates an IP object for every Pod of this cluster that runs in a provider, so that other peers reach it through this cluster. Overhead: one
// write per Pod.
type podIPs struct {
	client.Client
	Options
	events events.EventRecorder
}

// OffloadedPods creates the cache for Options.OffloadedPods and adds it to the manager.
func OffloadedPods(mgr ctrl.Manager) (cache.Cache, error) {
	return kube.NewCache(mgr, "offloaded pods", map[client.Object]cache.ByObject{
		&corev1.Pod{}: {Label: labels.SelectorFromSet(labels.Set{offloadingv1beta1.LabelShadowPod: api.True}), Transform: kube.Reduced(stripOffloadedPod)},
	})
}

// stripOffloadedPod keeps the fields that decide about the Pod's IP object.
func stripOffloadedPod(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{
		ObjectMeta: kube.Identity(&pod.ObjectMeta),
		Spec:       corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status:     corev1.PodStatus{Phase: pod.Status.Phase, PodIP: pod.Status.PodIP},
	}
	if value, found := pod.Annotations[podrules.AnnotationOffloaded]; found {
		out.Annotations = map[string]string{podrules.AnnotationOffloaded: value}
	}
	return out
}

func setupPodIP(mgr ctrl.Manager, opts Options) error {
	if opts.OffloadedPods == nil || opts.Addresses == nil {
		return nil
	}
	r := &podIPs{Client: mgr.GetClient(), Options: opts, events: kube.EventRecorder(mgr, "podip")}
	return kube.NewController(mgr, "podip", controller.Options{MaxConcurrentReconciles: opts.ShadowPodWorkers}).
		WatchesRawSource(source.Kind(opts.OffloadedPods, &corev1.Pod{}, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{},
			predicate.TypedFuncs[*corev1.Pod]{UpdateFunc: addressChanged})).
		// Reconcile on deletion: our IP object is recreated, or the name that a foreign IP object occupied is free now. Reconcile on creation: a
		// reconciliation right after the creation may have missed the IP object in the cache and found nothing to delete. Updates have no effect.
		Watches(&ipamv1alpha1.IP{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(event.UpdateEvent) bool { return false },
		})).
		// A changed Configuration can change the ranges in which this cluster sees all pods of a provider.
		Watches(&networkingv1beta1.Configuration{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(placeChanged)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.podsOn), builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool {
				return e.ObjectOld.GetLabels()[api.LabelRemoteClusterID] != e.ObjectNew.GetLabels()[api.LabelRemoteClusterID]
			},
			DeleteFunc: func(event.DeleteEvent) bool { return false }, // its pods are deleted, and garbage collection deletes their IP objects
		})).
		Complete(r)
}

// placeChanged ignores updates of a Configuration that do not change the ranges of the peer.
var placeChanged = kube.Updates(func(before, after *networkingv1beta1.Configuration) bool {
	return (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || !equality.Semantic.DeepEqual(before.Status.Remote, after.Status.Remote) ||
		!equality.Semantic.DeepEqual(before.Status.Ranges, after.Status.Ranges) ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec) || before.Labels[api.LabelRemoteClusterID] != after.Labels[api.LabelRemoteClusterID]
})

// all returns every offloaded Pod.
func (r *podIPs) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return kube.Requests(ctx, r.OffloadedPods, &corev1.PodList{})
}

// podsOn returns the offloaded Pods on a virtual node.
func (r *podIPs) podsOn(ctx context.Context, node client.Object) []reconcile.Request {
	return kube.Matching(ctx, r.OffloadedPods, &corev1.PodList{}, func(p *corev1.Pod) bool { return p.Spec.NodeName == node.GetName() })
}

// views returns the ranges in which this cluster sees the provider of a Pod; false while they are unknown.
func (r *podIPs) views(ctx context.Context, pod *corev1.Pod) ([]netip.Prefix, bool, error) {
	node := &corev1.Node{}
	found, err := exists(ctx, r.Client, node, client.ObjectKey{Name: pod.Spec.NodeName})
	provider := node.Labels[api.LabelRemoteClusterID]
	if err != nil || !found || provider == "" {
		return nil, false, err
	}
	views, known, err := r.Addresses.Views(ctx, r.Client, provider)
	if err != nil {
		return nil, false, fmt.Errorf("reading the ranges in which this cluster sees cluster %s: %w", provider, err)
	}
	return views, known, nil
}

// addressChanged ignores updates of a Pod that do not affect its IP object.
func addressChanged(e event.TypedUpdateEvent[*corev1.Pod]) bool {
	before, after := e.ObjectOld, e.ObjectNew
	return before.UID != after.UID || before.Status.PodIP != after.Status.PodIP || api.PodFinished(before) != api.PodFinished(after) ||
		podrules.Offloaded(before) != podrules.Offloaded(after)
}

// Reconcile creates or deletes the IP object of one Pod. It is no kube.Reconciler, because the Pod is in a cache of its own and its status is not that of Liqo.
func (r *podIPs) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	found, err := exists(ctx, r.OffloadedPods, pod, req.NamespacedName)
	if err != nil || !found { // garbage collection deletes the IP object with its owner
		return reconcile.Result{}, err
	}
	have := &ipamv1alpha1.IP{}
	if found, err = exists(ctx, r.Client, have, req.NamespacedName); err != nil {
		return reconcile.Result{}, err
	}
	if !found {
		have = nil
	}
	views, known, err := r.views(ctx, pod)
	if err != nil || !known { // an event of its Node or of a Configuration triggers the next reconciliation
		return reconcile.Result{}, err
	}
	switch action, want := offload.PodIP(pod, views, have); action {
	case offload.IPCreate:
		err := r.Create(ctx, want)
		switch {
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return reconcile.Result{}, nil
		case apierrors.IsAlreadyExists(err): // the cache lags behind, or the object is foreign, which the next reconciliation detects
			return reconcile.Result{RequeueAfter: staleDelay}, nil
		case err != nil:
			return reconcile.Result{}, fmt.Errorf("creating IP %s: %w", req.NamespacedName, err)
		}
	case offload.IPDelete:
		return reconcile.Result{}, kube.Delete(ctx, r.Client, have) // the deletion event triggers the next reconciliation
	case offload.IPForeign:
		r.events.Eventf(have, nil, corev1.EventTypeWarning, reasons.NameTaken, "Create",
			"peers cannot reach pod %s, which runs in another cluster, because this IP has its name and does not belong to it: delete the IP, or create it under another name",
			req.NamespacedName)
	}
	return reconcile.Result{}, nil
}
