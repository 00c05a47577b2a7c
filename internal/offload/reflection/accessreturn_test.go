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

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
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

// TestOpenWatchesHideNoRevocation: the provider revokes the permissions, and the watches that were open before stay open. Nothing is read by name. The
// engine observes the revocation within accessProbeInterval, and that the provider reports a drain. While access is allowed, it sends one request per
// interval, however many namespaces there are.
func TestOpenWatchesHideNoRevocation(t *testing.T) {
	for _, reported := range []bool{true, false} {
		var drained atomic.Bool
		var probes atomic.Int32
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "shadowpods"}, "", nil)
		far := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if (&client.ListOptions{}).ApplyOptions(opts).Limit == 1 {
					probes.Add(1)
				}
				if drained.Load() {
					return forbidden
				}
				return c.List(ctx, list, opts...)
			},
			Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
				if drained.Load() && reported && key.Name == offloadingv1beta1.DrainedRoleBinding {
					return nil
				}
				return forbidden
			},
		}).Build()
		e, m := newListing(&fixed{remote.State{Known: true, Up: true}})
		m.Spec.DesiredMapping["bank"] = "bank-rome"
		m.Status.CurrentMapping["bank"] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: "bank-rome", Phase: offloadingv1beta1.MappingAccepted}
		now := testclock.NewFakeClock(time.Now())
		e.opts.Remote, e.opts.Clock, e.opts.Log = listsFirst{far}, now, slog.New(slog.DiscardHandler)
		e.opts.Local = listsFirst{fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()}
		var changes atomic.Int32
		e.opts.AccessChanged = func() { changes.Add(1) }
		list(t, e.kinds[0].local)
		list(t, e.nsmap, m)
		e.settle(t.Context())
		go func() { _ = e.probeAccess(t.Context()) }()
		// after waits until done is true, while the clock makes at most one step of an interval.
		after := func(what string, steps int, done func() bool) {
			t.Helper()
			for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
				if steps > 0 && now.HasWaiters() {
					now.Step(accessProbeInterval)
					steps--
				}
				if time.Now().After(end) {
					t.Fatalf("reported %t: waited in vain for %s", reported, what)
				}
			}
		}
		after("the first lists", 0, func() bool {
			return e.namespaces["shop"].stores[e.kinds[0]][0].hasSynced() && e.namespaces["bank"].stores[e.kinds[0]][0].hasSynced()
		})
		if !e.Readable() {
			t.Errorf("reported %t: no namespace is readable", reported)
		}
		before, known := probes.Load(), changes.Load()
		after("two probes", 2, func() bool { return probes.Load() >= before+2 })
		time.Sleep(50 * time.Millisecond) // a second request of the same interval would be sent by now
		if sent := probes.Load() - before; sent != 2 || !e.RefusedSince().IsZero() || e.Drained() {
			t.Errorf("reported %t: %d requests in two intervals, want 2; refused since %s", reported, sent, e.RefusedSince())
		}
		drained.Store(true)
		after("the refusal", 1, func() bool { return !e.RefusedSince().IsZero() })
		if e.Readable() {
			t.Errorf("reported %t: a namespace is readable", reported)
		}
		after("the report", 0, func() bool { return e.Drained() == reported && changes.Load() >= known+3 }) // two refusals, and the report or its absence
	}
}
