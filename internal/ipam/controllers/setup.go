// Package controllers gives Networks their ranges and IPs their addresses, as package ipam plans them, and creates the Services
// that IPs request.
//
// Each kind has one controller, which runs one pass at a time. A pass reads all objects, plans them together and writes the
// changes. So a thousand IPs created together need only one plan. Reservations are not needed: the objects are the only record of
// the given values. A pass concerns all objects, so it does not run through kube.Reconciler, which has one object.
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
	"liqo.io/liqo/internal/reasons"
)

// Options are the options of the controllers.
type Options struct {
	// LiqoNamespace is the namespace of the installation. Its Network external-cidr gives addresses to IPs without a
	// spec.networkRef.
	LiqoNamespace string
	// Pools are the ranges from which remapped ranges are chosen; ipam.DefaultPools if empty.
	Pools []netip.Prefix
	// APIServer is the URL of the API server that the installation gives to consumers, for example that of a load balancer; empty if it gives none.
	APIServer string
	// Labels and Annotations are put on every created object.
	Labels, Annotations map[string]string
}

// Setup adds the controllers to the manager. The cache of the manager must hold all Networks and IPs.
func Setup(mgr ctrl.Manager, opts Options) error {
	if opts.LiqoNamespace == "" {
		return errors.New("setting up address management: the Liqo namespace is empty")
	}
	if len(opts.Pools) == 0 {
		opts.Pools = ipam.DefaultPools()
	}
	for _, pool := range opts.Pools {
		if !pool.Addr().Is4() {
			return fmt.Errorf("setting up address management: pool %s is not IPv4, the only family that this version supports: remove it (chart value ipam.pools)", pool)
		}
	}
	made, err := cacheOfMade(mgr)
	if err != nil {
		return err
	}
	events := kube.EventRecorder(mgr, "ipam")
	external := types.NamespacedName{Namespace: opts.LiqoNamespace, Name: ipamv1alpha1.NetworkExternal}
	n := &networks{client: mgr.GetClient(), live: mgr.GetAPIReader(), events: events, pools: opts.Pools, apiServer: opts.APIServer, external: external}
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
		Watches(&ipamv1alpha1.IP{}, onePass(), builder.WithPredicates(specChanged())).
		Watches(&ipamv1alpha1.Network{}, onePass()).
		WatchesRawSource(source.Kind[client.Object](made, &corev1.Service{}, onePass())).
		WatchesRawSource(source.Kind[client.Object](made, &discoveryv1.EndpointSlice{}, onePass())).
		Complete(i)
	if err != nil {
		return fmt.Errorf("setting up IPs: %w", err)
	}
	return nil
}

// onePass maps every event to the same request, so that one pass handles all earlier events.
func onePass() handler.EventHandler {
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}
	return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{request} })
}

// holdsNetwork selects the events of IPs that may allow the deletion of a Network, or announce a new node.
func holdsNetwork() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			return e.Object.GetLabels()[ipamv1alpha1.LabelIPType] == ipamv1alpha1.IPTypeNode
		},
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// specChanged ignores updates that only change the status: only the pass writes the status, and it records its own writes.
func specChanged() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			return !equality.Semantic.DeepEqual(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers()) ||
				!equality.Semantic.DeepEqual(e.ObjectOld.GetOwnerReferences(), e.ObjectNew.GetOwnerReferences())
		}})
}

// cacheOfMade returns a cache of only the Services and EndpointSlices of IPs, because a cluster has many others.
func cacheOfMade(mgr ctrl.Manager) (cache.Cache, error) {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{labelOfIP: api.True})}
	return kube.NewCache(mgr, "the Services of IPs", map[client.Object]cache.ByObject{&corev1.Service{}: ours, &discoveryv1.EndpointSlice{}: ours})
}

const (
	// behindDelay is the first pause of a pass that finds the cache older than its own writes; longestDelay is the longest. After
	// a restart, an API server may need a minute until its watches are up to date.
	behindDelay  = 10 * time.Millisecond
	longestDelay = time.Second
	// writers is the number of objects written in parallel.
	writers = 8
)

// readyCondition returns the condition Ready after a pass.
func readyCondition(generation int64, p ipam.Problem) metav1.Condition {
	condition := metav1.Condition{Type: kube.ConditionReady, Status: metav1.ConditionTrue, Reason: reasons.Reconciled, ObservedGeneration: generation}
	if p != (ipam.Problem{}) {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, p.Reason, p.Message
	}
	return condition
}
