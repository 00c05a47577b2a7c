package controllers

import (
	"context"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

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
		s := &sharing{
			client: fake.NewClientBuilder().WithScheme(scheme).Build(), informers: fakeInformers(scheme), stock: stock,
			wanted: make(chan struct{}), known: make(chan struct{}), news: make(chan struct{}, 1),
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended, answered := make(chan error, 1), make(chan error, 1)
		go func() { ended <- s.Start(ctx) }()
		go func() {
			_, err := s.of(ctx, &authv1beta1.ResourceSlice{})
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

func fakeInformers(scheme *runtime.Scheme) cache.Cache {
	return &informertest.FakeInformers{Scheme: scheme}
}
