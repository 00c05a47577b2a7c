package reflection

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/remote"
)

// TestTheEndOfARefusalThatNoPodObserves: during a drain, the provider refuses a read by name, while the watches that were open before stay open. When
// the drain ends, the NamespaceMap shows the recreated remote namespace at once, so no watch is restarted, and there is no pod left to read. The engine
// still observes that access is allowed again.
func TestTheEndOfARefusalThatNoPodObserves(t *testing.T) {
	var drained atomic.Bool
	far := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if drained.Load() {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "shadowpods"}, "", nil)
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	e, m := newListing(&fixed{remote.State{Known: true, Up: true}})
	now := testclock.NewFakeClock(time.Now())
	e.opts.Remote, e.opts.Clock, e.opts.Log = listsFirst{far}, now, slog.New(slog.DiscardHandler)
	e.opts.Local = listsFirst{fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()}
	changed := make(chan struct{}, 100)
	e.opts.AccessChanged = func() { changed <- struct{}{} }
	pods := e.kinds[0]
	list(t, pods.local)
	list(t, e.nsmap, m)
	e.settle(t.Context())
	_, at := e.mapping("shop")
	soon := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("waited in vain for %s", what)
			}
		}
	}
	shadows := at.stores[pods][0]
	soon("the first list", shadows.hasSynced)

	drained.Store(true)
	since := shadows.refuse(false)
	<-changed
	for range 10 { // the drain lasts
		now.Step(accessCheckInterval)
		time.Sleep(5 * time.Millisecond)
	}
	if got := e.RefusedSince(); !got.Equal(since) || !shadows.hasSynced() {
		t.Errorf("access is refused since %v, want %v; the objects in the provider are watched: %t", got, since, shadows.hasSynced())
	}

	drained.Store(false)
	soon("access to be allowed", func() bool {
		now.Step(accessCheckInterval)
		return e.RefusedSince().IsZero()
	})
	<-changed
}
