package node

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/apitest"
)

func TestOneReplicaIsElectedOnAPIServer(t *testing.T) {
	cfg := apitest.APIServer(t)
	c := apitest.Client(t, cfg)
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	first, stopFirst := context.WithCancel(t.Context())
	leads, ended := make(chan string, 2), make(chan error, 3)
	go func() {
		ended <- WhenElected(first, cfg, "ns", "node", "first", func() {}, func(ctx context.Context) error { leads <- "first"; <-ctx.Done(); return nil })
	}()
	if who := <-leads; who != "first" {
		t.Fatal(who)
	}
	standby := make(chan struct{}, 10)
	standing := func() { standby <- struct{}{} }
	go func() {
		ended <- WhenElected(t.Context(), cfg, "ns", "node", "second", standing, func(context.Context) error { leads <- "second"; return broken })
	}()
	never, stopNever := context.WithCancel(t.Context())
	go func() {
		ended <- WhenElected(never, cfg, "ns", "node", "third", func() {}, func(context.Context) error { t.Error("elected while another leads"); return nil })
	}()
	stopNever()
	if err := <-ended; err != nil {
		t.Errorf("one that was never elected ended with %v", err)
	}
	<-standby // a rollout continues only if the standby is ready while the first one still leads
	began := time.Now()
	stopFirst()
	if err := <-ended; err != nil {
		t.Errorf("the first ended with %v", err)
	}
	if who := <-leads; who != "second" {
		t.Fatal(who)
	}
	if d := time.Since(began); d > electionDuration-electionRetry {
		t.Errorf("a lease that was given back was waited for: %s", d)
	}
	if err := <-ended; !errors.Is(err, broken) {
		t.Errorf("the second ended with %v", err)
	}
	var lease coordinationv1.Lease
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "node"}, &lease); err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != "" {
		t.Errorf("the lease is held: %+v, %v", lease.Spec, err)
	}
}
