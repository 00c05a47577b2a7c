package controllers

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// slowStock is a cache that takes until begin to start.
type slowStock struct {
	informertest.FakeInformers
	begin chan struct{}
}

func (s *slowStock) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (s *slowStock) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.begin:
		return true
	}
}

func (s *slowStock) List(context.Context, client.ObjectList, ...client.ListOption) error {
	select {
	case <-s.begin:
		return nil
	default:
		return &cache.ErrCacheNotStarted{}
	}
}

func TestNoShareBeforeAllCachesAreSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := kube.NewScheme()
		stock := &slowStock{FakeInformers: informertest.FakeInformers{Scheme: scheme}, begin: make(chan struct{})}
		s := &sharer{
			client: fake.NewClientBuilder().WithScheme(scheme).Build(), informers: fakeInformers(scheme), stock: stock,
			wanted: make(chan struct{}), known: make(chan struct{}), news: make(chan struct{}, 1),
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended, answered := make(chan error, 1), make(chan error, 1)
		go func() { ended <- s.Start(ctx) }()
		go func() {
			_, err := s.shareOf(ctx, &authv1beta1.ResourceSlice{})
			answered <- err
		}()
		synctest.Wait()
		select {
		case err := <-answered:
			t.Errorf("answered before anything is known: %v", err)
		default:
			close(stock.begin)
			if err := <-answered; err != nil {
				t.Error(err)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestChangesOfNodesAreAnnouncedInTime: consumers learn within 5 s which nodes are about to end. Changes are collected for the most part of that time, and never for
// longer, however many there are.
func TestChangesOfNodesAreAnnouncedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := kube.NewScheme()
		slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", Labels: map[string]string{api.LabelReplicated: api.True}}}
		slice.Status.InterruptedNodes = []authv1beta1.InterruptedNode{{Name: "one", Cause: "is cordoned"}} // it is there again
		stock := &slowStock{FakeInformers: informertest.FakeInformers{Scheme: scheme}, begin: make(chan struct{})}
		close(stock.begin)
		s := &sharer{
			client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(slice).Build(), informers: fakeInformers(scheme), stock: stock, window: sharingWindow,
			wanted: make(chan struct{}), known: make(chan struct{}), news: make(chan struct{}, 1),
		}
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		ctx, stop := context.WithCancel(t.Context())
		if err := s.moved.source().Start(ctx, queue); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Start(ctx) }()
		if _, err := s.shareOf(ctx, slice); err != nil {
			t.Fatal(err)
		}
		var changes sync.WaitGroup
		changes.Go(func() {
			for ctx.Err() == nil {
				s.news.Fire()
				time.Sleep(100 * time.Millisecond)
			}
		})
		for range 3 {
			began := time.Now()
			request, _ := queue.Get()
			if took := time.Since(began); took > 4*time.Second || request.NamespacedName != client.ObjectKeyFromObject(slice) {
				t.Errorf("after %s, %s was announced, want %s within 4 s", took, request, client.ObjectKeyFromObject(slice))
			}
			queue.Done(request)
		}
		stop()
		changes.Wait()
		queue.ShutDown()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func fakeInformers(scheme *runtime.Scheme) cache.Cache {
	return &informertest.FakeInformers{Scheme: scheme}
}
