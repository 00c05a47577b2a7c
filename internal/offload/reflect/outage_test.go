package reflect

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// outage is a cluster that is unreachable until it is healed, and the health check that knows it.
type outage struct {
	client.WithWatch
	healed chan struct{}

	mu       sync.Mutex
	requests int
}

func (o *outage) Scheme() *runtime.Scheme { return kube.NewScheme() }

func (o *outage) IsWatchListSemanticsUnSupported() bool { return true }

func (o *outage) List(context.Context, client.ObjectList, ...client.ListOption) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests++
	select {
	case <-o.healed:
		return nil
	default:
		return errors.New("no route to host")
	}
}

func (o *outage) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return watch.NewFake(), nil
}

func (o *outage) Reached(ctx context.Context) error {
	select {
	case <-o.healed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestListsFollowTheEndOfAnOutage: however long a cluster was unreachable, its objects are listed as soon as it is reachable again, and not asked for before.
func TestListsFollowTheEndOfAnOutage(t *testing.T) {
	for _, length := range []time.Duration{time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			far := &outage{healed: make(chan struct{})}
			ctx, cancel := context.WithCancel(t.Context())
			listed := make(chan struct{})
			s := newStore(Resource{Object: &corev1.ConfigMap{}}, nil, func() { close(listed) })
			done := make(chan error, 1)
			go func() { done <- watchInto(ctx, far, "", s, far.Reached) }()
			time.Sleep(length)
			if far.requests != 0 {
				t.Errorf("%d requests in an outage of %v", far.requests, length)
			}
			close(far.healed)
			began := time.Now()
			<-listed
			if took := time.Since(began); took > time.Second {
				t.Errorf("after an outage of %v the list came %v late", length, took)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
