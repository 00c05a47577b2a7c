package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowendpointslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowendpointslices/status,verbs=patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowendpointslices/finalizers,verbs=update
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=networks,verbs=get;list;watch

// shadowEndpointSlices maintains, on the provider, the EndpointSlice of every ShadowEndpointSlice. The EndpointSlice contains only addresses that the
// consumer may use. Its endpoints are not ready while the consumer is unreachable.
type shadowEndpointSlices struct {
	client.Client
	Options
	events events.EventRecorder
}

func setupShadowEndpointSlice(mgr ctrl.Manager, opts Options) error {
	r := &shadowEndpointSlices{Client: mgr.GetClient(), Options: opts, events: kube.EventRecorder(mgr, "shadowendpointslice")}
	b := kube.NewController(mgr, "shadowendpointslice", controller.Options{MaxConcurrentReconciles: opts.ShadowPodWorkers}).
		For(&offloadingv1beta1.ShadowEndpointSlice{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&discoveryv1.EndpointSlice{}).
		Watches(&corev1beta1.ForeignCluster{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
			return r.ofConsumer(ctx, obj.GetName())
		}), builder.WithPredicates(peerChanged)).
		Watches(&networkingv1beta1.Configuration{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
			if id := obj.GetLabels()[api.LabelRemoteClusterID]; id != "" {
				return r.ofConsumer(ctx, id)
			}
			return r.ofConsumer(ctx, obj.GetName())
		})).
		// An address that belongs to this cluster now may have been accepted as the consumer's before.
		Watches(&ipamv1alpha1.Network{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(rangeChanged))
	if opts.RealNodes != nil {
		b = b.WatchesRawSource(source.Kind(opts.RealNodes, &corev1.Node{}, handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, node *corev1.Node) []reconcile.Request { return r.all(ctx, node) }), predicate.TypedFuncs[*corev1.Node]{
			UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
				return !slices.Equal(e.ObjectOld.Status.Addresses, e.ObjectNew.Status.Addresses)
			},
		}))
	}
	return b.Complete(&kube.Reconciler[*offloadingv1beta1.ShadowEndpointSlice]{Name: "shadowendpointslice", Client: mgr.GetClient(), Sync: r.sync})
}

// rangeChanged ignores updates of a Network that do not change its range.
var rangeChanged = kube.Updates(func(before, after *ipamv1alpha1.Network) bool {
	return before.Status.CIDR != after.Status.CIDR || before.Spec.CIDR != after.Spec.CIDR || !maps.Equal(before.Labels, after.Labels)
})

// peerChanged ignores updates of a ForeignCluster that do not affect endpoints.
var peerChanged = kube.Updates(func(before, after *corev1beta1.ForeignCluster) bool {
	return before.Status.Modules.Networking.Enabled != after.Status.Modules.Networking.Enabled ||
		!slices.EqualFunc(before.Status.Conditions, after.Status.Conditions, sameState) ||
		!slices.EqualFunc(before.Status.Modules.Networking.Conditions, after.Status.Modules.Networking.Conditions, sameState)
})

// sameState reports whether two conditions are equal except for reason and message.
func sameState(a, b corev1beta1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

// ofConsumer returns all ShadowEndpointSlices of a consumer.
func (r *shadowEndpointSlices) ofConsumer(ctx context.Context, consumer string) []reconcile.Request {
	var namespaces corev1.NamespaceList
	if err := r.List(ctx, &namespaces, client.MatchingLabels{api.LabelRemoteClusterID: consumer}); err != nil {
		return nil // fails only at shutdown
	}
	var out []reconcile.Request
	for i := range namespaces.Items {
		out = append(out, kube.Requests(ctx, r, &offloadingv1beta1.ShadowEndpointSliceList{}, client.InNamespace(namespaces.Items[i].Name))...)
	}
	return out
}

// all returns all ShadowEndpointSlices.
func (r *shadowEndpointSlices) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return kube.Requests(ctx, r, &offloadingv1beta1.ShadowEndpointSliceList{})
}

func (r *shadowEndpointSlices) sync(ctx context.Context, shadow *offloadingv1beta1.ShadowEndpointSlice) error {
	facts, after, err := r.facts(ctx, shadow.Namespace)
	if err != nil {
		return err
	}
	want, refused := offload.EndpointSlice(shadow, facts)
	reason := offloadingv1beta1.ReasonAddressRefused
	if facts.Waiting != "" {
		reason = offloadingv1beta1.ReasonNoTranslation
	}
	r.report(shadow, reason, refused)
	have := &discoveryv1.EndpointSlice{}
	found, err := exists(ctx, r.Client, have, client.ObjectKeyFromObject(shadow))
	if err != nil {
		return err
	}
	if !found {
		have = nil
	}
	switch offload.ShadowEndpoints(shadow, have, want) {
	case offload.EndpointSliceCreate:
		err = r.create(ctx, shadow, want)
	case offload.EndpointSliceUpdate:
		next := have.DeepCopy()
		next.Labels, next.Annotations, next.Endpoints, next.Ports = want.Labels, want.Annotations, want.Endpoints, want.Ports
		if err = r.Patch(ctx, next, client.MergeFrom(have)); apierrors.IsNotFound(err) {
			err = kube.WaitFor(staleDelay, reasons.WaitingForCache, "EndpointSlice %s/%s was deleted while it was read", shadow.Namespace, shadow.Name)
		}
	case offload.EndpointSliceDelete:
		err = kube.Delete(ctx, r.Client, have) // the deletion event triggers the next reconciliation
	case offload.EndpointSliceForeign:
		err = r.taken(shadow)
	}
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		r.events.Eventf(shadow, nil, corev1.EventTypeWarning, reasons.Invalid, "Create", "the API server rejected the EndpointSlice: %v", err)
		return kube.Invalid(reasons.Invalid, "the API server rejected the EndpointSlice: %v", err)
	}
	if err == nil && after > 0 {
		return kube.WaitFor(after, reasons.ConsumerUnreachable, "cluster %s is unreachable", facts.Consumer)
	}
	return err
}

// facts collects the inputs for the slices of a namespace, and the time after which to reconcile them again.
func (r *shadowEndpointSlices) facts(ctx context.Context, name string) (offload.EndpointFacts, time.Duration, error) {
	var namespace corev1.Namespace
	if err := r.Get(ctx, client.ObjectKey{Name: name}, &namespace); err != nil {
		return offload.EndpointFacts{}, 0, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	f := offload.EndpointFacts{Consumer: namespace.Labels[api.LabelRemoteClusterID]}
	if f.Consumer == "" {
		return f, 0, kube.Invalid(reasons.MissingConsumerLabel, "namespace %s is not the remote namespace of another cluster: it has no label %s", name, api.LabelRemoteClusterID)
	}
	peer := &corev1beta1.ForeignCluster{}
	found, err := exists(ctx, r.Client, peer, client.ObjectKey{Name: f.Consumer})
	if err != nil {
		return f, 0, err
	}
	if !found {
		peer = nil
	}
	var after time.Duration
	f.Reachable, after = offload.PeerReachable(peer, r.Now())
	if r.Addresses == nil {
		return f, after, nil
	}
	if f.Own, err = r.Addresses.Own(ctx, r.Client, f.Consumer); err != nil {
		return f, 0, fmt.Errorf("gathering the ranges of the provider: %w", err)
	}
	if f.Translate, f.Waiting, err = r.Addresses.Translation(ctx, r.Client, f.Consumer); err != nil {
		return f, 0, fmt.Errorf("preparing the translation of addresses of cluster %s: %w", f.Consumer, err)
	}
	return f, after, nil // if the translation is not available yet, an event of a Configuration triggers the next reconciliation
}

// report sets the condition for refused addresses, or removes it if there are none. It emits an event when the condition changes.
func (r *shadowEndpointSlices) report(shadow *offloadingv1beta1.ShadowEndpointSlice, reason string, refused []string) {
	conditions := &shadow.Status.Conditions
	if len(refused) == 0 {
		meta.RemoveStatusCondition(conditions, offloadingv1beta1.EndpointsAccepted)
		return
	}
	const shown = 3
	message := strings.Join(refused[:min(shown, len(refused))], "; ")
	if len(refused) > shown {
		message += fmt.Sprintf("; and %d more", len(refused)-shown)
	}
	if meta.SetStatusCondition(conditions, metav1.Condition{
		Type: offloadingv1beta1.EndpointsAccepted, Status: metav1.ConditionFalse, Reason: reason,
		Message: message, ObservedGeneration: shadow.Generation,
	}) {
		r.events.Eventf(shadow, nil, corev1.EventTypeWarning, reason, "Translate", "%s", message)
	}
}

// create creates the EndpointSlice. If the name is taken, it reads the existing object: either that is foreign, or only the cache lags behind.
func (r *shadowEndpointSlices) create(ctx context.Context, shadow *offloadingv1beta1.ShadowEndpointSlice, want *discoveryv1.EndpointSlice) error {
	err := r.Create(ctx, want)
	switch {
	case err == nil:
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return kube.Wait(reasons.NamespaceTerminating, "namespace %s is being deleted", shadow.Namespace)
	case !apierrors.IsAlreadyExists(err):
		return err
	}
	taken := &discoveryv1.EndpointSlice{}
	there, err := exists(ctx, r.Live, taken, client.ObjectKeyFromObject(shadow))
	switch {
	case err != nil:
		return err
	case there && offload.ShadowEndpoints(shadow, taken, want) == offload.EndpointSliceForeign:
		return r.taken(shadow)
	default:
		return kube.WaitFor(staleDelay, reasons.WaitingForCache, "waiting for the cache to have EndpointSlice %s/%s", shadow.Namespace, shadow.Name)
	}
}

func (r *shadowEndpointSlices) taken(shadow *offloadingv1beta1.ShadowEndpointSlice) error {
	r.events.Eventf(shadow, nil, corev1.EventTypeWarning, reasons.NameTaken, "Create",
		"an EndpointSlice of this name exists and does not belong to Liqo; it is left alone, and this one is created once the name is free")
	return kube.WaitFor(foreignRetry, reasons.NameTaken, "EndpointSlice %s/%s exists and does not belong to Liqo", shadow.Namespace, shadow.Name)
}
