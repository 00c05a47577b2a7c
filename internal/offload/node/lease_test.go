package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/internal/kube"
)

// TestLostLease: Lost returns true from the moment on when the control plane may consider the Node failed.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cut atomic.Bool
		answer := func() error {
			if cut.Load() {
				return errors.New("no route to host")
			}
			return nil
		}
		local := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				return errors.Join(answer(), c.Get(ctx, key, obj, opts...))
			},
			Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
				return errors.Join(answer(), c.Update(ctx, obj, opts...))
			},
		}).Build()
		var regained atomic.Int32
		n, err := New(Options{
			Local: local, Name: "milan", Listen: ":10250", Log: slog.New(slog.DiscardHandler), LeaseRegained: func() { regained.Add(1) },
		})
		if err != nil {
			t.Fatal(err)
		}
		close(n.exists)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if n.Lost() {
			t.Error("lost before it was there")
		}
		go func() { _ = n.RunLease(ctx) }()
		time.Sleep(time.Minute + time.Second)
		for _, row := range []struct {
			what     string
			cut      bool
			after    time.Duration
			lost     bool
			regained int32
		}{
			{"renewed", false, time.Minute, false, 0},
			{"cut off for a moment", true, leaseDuration - leaseRenewal, false, 0},
			{"back", false, 2 * leaseRetry, false, 0},
			{"cut off", true, leaseDuration + leaseRenewal, true, 0},
			{"back again", false, 2 * leaseRetry, false, 1},
			{"and renewed", false, time.Minute, false, 1},
		} {
			cut.Store(row.cut)
			time.Sleep(row.after)
			if n.Lost() != row.lost || regained.Load() != row.regained {
				t.Errorf("%s: lost %v, regained %d times", row.what, n.Lost(), regained.Load())
			}
		}
	})
}
