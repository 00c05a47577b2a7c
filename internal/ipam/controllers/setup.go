// Package controllers gives Networks their ranges and IPs their addresses, as package ipam plans them, and makes the Services that IPs ask for.
//
// There is one pass per kind, never two at a time: it reads all objects, plans them together and writes what changed. So a thousand IPs
// that are made at once cost one plan, and nobody has to reserve anything: the objects are the only book of what is given.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/kube"
)

// Options of the controllers.
type Options struct {
	// LiqoNamespace is that of the installation; its Network external-cidr gives the addresses of IPs that name none.
	LiqoNamespace string
	// Pools are where remapped ranges come from; ipam.DefaultPools when empty.
	Pools []netip.Prefix
	// Labels and Annotations are put on every object that is made.
	Labels, Annotations map[string]string
}

// Setup adds the controllers to the manager. The whole of the kinds Network and IP has to be in its cache.
func Setup(mgr ctrl.Manager, opts Options) error {
	if opts.LiqoNamespace == "" {
		return errors.New("setting up address management: the Liqo namespace is empty")
	}
	if len(opts.Pools) == 0 {
		opts.Pools = ipam.DefaultPools()
	}
	for _, pool := range opts.Pools {
		if !pool.Addr().Is4() {
			return fmt.Errorf("setting up address management: pool %s is not IPv4, which is all this version gives: remove it (chart value ipam.pools)", pool)
		}
	}
	made, err := cacheOfMade(mgr)
	if err != nil {
		return err
	}
	events := kube.EventRecorder(mgr, "ipam")
	external := types.NamespacedName{Namespace: opts.LiqoNamespace, Name: ipamv1alpha1.NetworkExternal}
	n := &networks{client: mgr.GetClient(), live: mgr.GetAPIReader(), events: events, pools: opts.Pools, external: external}
	err = kube.NewController(mgr, "network").
		Watches(&ipamv1alpha1.Network{}, onePass()).
		Watches(&ipamv1alpha1.IP{}, onePass(), builder.WithPredicates(holdsNetwork())).
		Complete(n)
	if err != nil {
		return fmt.Errorf("setting up networks: %w", err)
	}
	services := &services{client: mgr.GetClient(), live: mgr.GetAPIReader(), made: made, labels: opts.Labels, annotations: opts.Annotations}
	i := &ips{client: mgr.GetClient(), live: mgr.GetAPIReader(), events: events, external: external, services: services}
	err = kube.NewController(mgr, "ip").
		Watches(&ipamv1alpha1.IP{}, onePass(), builder.WithPredicates(wishes())).
		Watches(&ipamv1alpha1.Network{}, onePass()).
		WatchesRawSource(source.Kind[client.Object](made, &corev1.Service{}, onePass())).
		WatchesRawSource(source.Kind[client.Object](made, &discoveryv1.EndpointSlice{}, onePass())).
		Complete(i)
	if err != nil {
		return fmt.Errorf("setting up IPs: %w", err)
	}
	return nil
}

// onePass maps every event to one and the same request, so that a pass answers all that happened before it.
func onePass() handler.EventHandler {
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}
	return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{request} })
}

// holdsNetwork are the events of IPs that may let a Network go, or tell of a new node.
func holdsNetwork() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			return e.Object.GetLabels()[ipamv1alpha1.LabelIPType] == ipamv1alpha1.IPTypeNode
		},
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// wishes leaves out that a status was written: nobody but the pass writes it, and it knows what it wrote.
func wishes() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			return !equality.Semantic.DeepEqual(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers()) ||
				!equality.Semantic.DeepEqual(e.ObjectOld.GetOwnerReferences(), e.ObjectNew.GetOwnerReferences())
		}})
}

// cacheOfMade holds the Services and EndpointSlices that were made for IPs, and no others: a cluster has many.
func cacheOfMade(mgr ctrl.Manager) (cache.Cache, error) {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{labelOfIP: api.True})}
	made, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject:         map[client.Object]cache.ByObject{&corev1.Service{}: ours, &discoveryv1.EndpointSlice{}: ours},
		DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("making a cache of the Services of IPs: %w", err)
	}
	if err := mgr.Add(made); err != nil {
		return nil, fmt.Errorf("adding the cache of the Services of IPs: %w", err)
	}
	return made, nil
}

const (
	// behindDelay is how long a pass waits that finds the cache older than what it wrote, at first, and longestDelay how long at most: an API server
	// that comes back may need a minute to tell its news.
	behindDelay  = 10 * time.Millisecond
	longestDelay = time.Second
	// writers is how many objects are written at a time.
	writers = 8
)

// readyCondition is the summary condition after a pass.
func readyCondition(generation int64, p ipam.Problem) metav1.Condition {
	condition := metav1.Condition{Type: kube.ConditionReady, Status: metav1.ConditionTrue, Reason: kube.ReasonReconciled, ObservedGeneration: generation}
	if p != (ipam.Problem{}) {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, p.Reason, p.Message
	}
	return condition
}
