package kube

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// An object whose reconciliation fails is retried after firstRetry, then after twice the previous delay each time, but at most after LongestRetry. As
// in controller-runtime, there is no limit that all objects of a controller share: while many objects fail, such a limit would delay all of them.
const (
	firstRetry   = 5 * time.Millisecond
	LongestRetry = 30 * time.Second
)

// NewController returns a builder for a controller that retries failures at least every LongestRetry. The default of controller-runtime waits up to
// 1000 s, so a peer that was unreachable for an hour would be reconnected up to a quarter of an hour late. Options may be omitted. A RateLimiter in
// them is used as it is.
func NewController(mgr ctrl.Manager, name string, options ...controller.Options) *ctrl.Builder {
	var o controller.Options
	if len(options) > 0 {
		o = options[0]
	}
	return ctrl.NewControllerManagedBy(mgr).Named(name).WithOptions(ControllerOptions(o))
}

// Updates returns a predicate that drops those updates of objects of type T for which changed returns false. It passes all creations and deletions.
func Updates[T client.Object](changed func(before, after T) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(T)
		after, also := e.ObjectNew.(T)
		return !ok || !also || changed(before, after)
	}}
}

// ControllerOptions adds the retry limits of NewController to the options of a controller that is created without the builder.
func ControllerOptions(o controller.Options) controller.Options {
	if o.RateLimiter == nil {
		o.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, LongestRetry)
	}
	return o
}
