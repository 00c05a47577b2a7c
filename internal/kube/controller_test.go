package kube

import (
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestRetriesStayFrequent(t *testing.T) {
	limiter := ControllerOptions(controller.Options{}).RateLimiter
	var request reconcile.Request
	if first := limiter.When(request); first > 100*time.Millisecond {
		t.Errorf("the first retry comes after %v", first)
	}
	for range 40 { // an error that lasts for many minutes
		if wait := limiter.When(request); wait > LongestRetry {
			t.Fatalf("a retry comes after %v, want at most %v", wait, LongestRetry)
		}
	}
	own := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Second)
	if ControllerOptions(controller.Options{RateLimiter: own}).RateLimiter != own {
		t.Error("the controller's own pace is replaced")
	}
}
