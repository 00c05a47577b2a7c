package facts

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// TestInformersNoticeThatAnAPIServerIsBack: an API server is unreachable for an hour. The informer receives a new pod within seconds after its
// return.
func TestInformersNoticeThatAnAPIServerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var down bool
		pods := watch.NewFake()
		lw := &cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
			},
			WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
				switch {
				case down:
					return nil, syscall.ECONNREFUSED
				case options.SendInitialEvents != nil: // an old API server: the informer lists instead
					return nil, apierrors.NewBadRequest("sendInitialEvents is forbidden")
				}
				return pods, nil
			},
		}
		var heard time.Time
		informer := newPromptInformer(lw, &corev1.Pod{}, 0, cache.Indexers{})
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { heard = time.Now() }}); err != nil {
			t.Fatal(err)
		}
		go informer.RunWithContext(ctx)
		time.Sleep(time.Minute)

		down = true
		gone := pods
		pods = watch.NewFake()
		gone.Stop()
		time.Sleep(time.Hour)
		down = false
		back := time.Now()
		pods.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "new", ResourceVersion: "2"}})
		time.Sleep(time.Hour)
		if waited := heard.Sub(back); heard.IsZero() || waited > 8*time.Second {
			t.Errorf("it heard of the pod after %s, want at most 8s", waited)
		}
		cancel()
		synctest.Wait()
	})
}

func TestRejectedWatchesAreNotRetried(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		tries int
	}{
		"expired":       {apierrors.NewResourceExpired("too old"), 1},
		"forbidden":     {apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no")), 1},
		"overloaded":    {apierrors.NewTooManyRequests("later", 1), 3},
		"no etcd":       {apierrors.NewInternalError(errors.New("no leader")), 3},
		"no API server": {syscall.ECONNREFUSED, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries, logged := 0, 0
				log := funcr.New(func(string, string) { logged++ }, funcr.Options{})
				lw := &cache.ListWatch{WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
					if tries++; tries < 3 {
						return nil, c.err
					}
					return watch.NewFake(), nil
				}}
				_, err := promptWatcher{lw, lw}.WatchWithContext(klog.NewContext(t.Context(), log), metav1.ListOptions{})
				if tries != c.tries || (err != nil) != (c.tries == 1) {
					t.Errorf("%d tries, error %v; want %d tries", tries, err, c.tries)
				}
				if want := min(c.tries-1, 1); logged != want {
					t.Errorf("%d lines are logged, want %d: one for each outage", logged, want)
				}
			})
		})
	}
}
