package facts

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// watchRetryMax is the maximum delay, without jitter, before a watch that found no API server is tried again.
const watchRetryMax = 5 * time.Second

// newPromptInformer returns an informer that reconnects within about five seconds after an API server is back. The informers of client-go take
// up to a minute after a longer outage (defaultBackoffMax in k8s.io/client-go/tools/cache). Use it as the option NewInformer of a cache whose users
// must not work with outdated objects for so long.
func newPromptInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(promptWatcher{lw, cache.ToListerWatcherWithContext(lw)}, example, resync, indexers)
}

// promptWatcher retries a watch itself. So the informer does not see the failures, and does not increase its delay with each of them.
type promptWatcher struct {
	cache.ListerWatcher
	cache.ListerWatcherWithContext
}

// WatchWithContext starts a watch as soon as an API server accepts one. It returns an error if the server refuses the watch, or ctx ends. It logs
// only the first failure, because the informer does not see the failures and so cannot log them.
func (p promptWatcher) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	delay := wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Steps: 4, Cap: watchRetryMax, Jitter: 0.5}
	for logged := false; ; logged = true {
		w, err := p.ListerWatcherWithContext.WatchWithContext(ctx, options)
		if err == nil || ctx.Err() != nil || refused(err) {
			return w, err
		}
		if !logged {
			klog.FromContext(ctx).Error(err, "Failed to start a watch: retrying until an API server accepts it")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(delay.Step()):
		}
	}
}

// refused reports whether an error is the decision of an API server, and not an outage or an overload.
func refused(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && answer.Status().Code < http.StatusInternalServerError && answer.Status().Code != http.StatusTooManyRequests
}
