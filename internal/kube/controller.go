package kube

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// An object whose pass fails is tried again after firstRetry, then after twice as long each time, at most after LongestRetry. All objects of one
// controller together are retried retriesPerSecond times per second, retriesAtOnce at once.
const (
	firstRetry       = 5 * time.Millisecond
	LongestRetry     = 30 * time.Second
	retriesPerSecond = 10
	retriesAtOnce    = 100
)

// NewController begins a controller. An error that lasts and then ends is noticed within LongestRetry: the default of controller-runtime waits up
// to 1000 s, so that a peer which was unreachable for an hour would be joined again a quarter of an hour late. Options may be left out; a
// RateLimiter in them is kept.
func NewController(mgr ctrl.Manager, name string, options ...controller.Options) *ctrl.Builder {
	var o controller.Options
	if len(options) > 0 {
		o = options[0]
	}
	return ctrl.NewControllerManagedBy(mgr).Named(name).WithOptions(ControllerOptions(o))
}

// ControllerOptions adds the pace of retries that NewController promises, for a controller that is made without a builder.
func ControllerOptions(o controller.Options) controller.Options {
	if o.RateLimiter == nil {
		o.RateLimiter = workqueue.NewTypedMaxOfRateLimiter(
			workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, LongestRetry),
			&workqueue.TypedBucketRateLimiter[reconcile.Request]{Limiter: rate.NewLimiter(retriesPerSecond, retriesAtOnce)},
		)
	}
	return o
}
