package controllers

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	sharingv1alpha1 "liqo.io/liqo/api/sharing/v1alpha1"
	"liqo.io/liqo/internal/peering"
)

// +kubebuilder:rbac:groups=core,resources=nodes;pods,verbs=get;list;watch

// sharing knows what share of this cluster each ResourceSlice has, and tells when one has moved. It keeps nothing: shares follow from what caches hold.
type sharing struct {
	client client.Client
	// informers of the manager, stock of what this cluster has.
	informers, stock cache.Cache
	policy           peering.SharingPolicy
	// window is for how long news are collected before shares are compared.
	window time.Duration
	moved  announcer

	// wanted is closed when there is somebody to share with, known when everything is known.
	wanted, known chan struct{}
	want          sync.Once
	news          chan struct{}
}

// newSharing makes one for a manager. Nothing is read before the first ResourceSlice of a consumer: those who only consume pay nothing.
func newSharing(mgr ctrl.Manager, c client.Client, policy peering.SharingPolicy, window time.Duration) (*sharing, error) {
	stock, err := newStock(mgr)
	if err != nil {
		return nil, err
	}
	return &sharing{
		client: c, informers: mgr.GetCache(), stock: stock, policy: policy, window: window,
		wanted: make(chan struct{}), known: make(chan struct{}), news: make(chan struct{}, 1),
	}, nil
}

// of returns the share of a ResourceSlice as of now.
func (s *sharing) of(ctx context.Context, slice *authv1beta1.ResourceSlice) (peering.Share, error) {
	s.want.Do(func() { close(s.wanted) })
	select {
	case <-ctx.Done():
		return peering.Share{}, ctx.Err()
	case <-s.known:
	}
	facts, err := s.gather(ctx)
	if err != nil {
		return peering.Share{}, err
	}
	return peering.Shares(s.policy, facts)[client.ObjectKeyFromObject(slice)], nil
}

// Start collects news until ctx ends.
func (s *sharing) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.wanted:
	}
	ended := make(chan error, 1)
	go func() { ended <- s.stock.Start(ctx) }()
	if err := s.listen(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	close(s.known)
	var last map[types.NamespacedName]peering.Share
	var collected <-chan time.Time
	for {
		select {
		case err := <-ended:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watching nodes and pods: %w", err)
		case <-s.news:
			if collected == nil {
				collected = time.After(s.window)
			}
		case <-collected:
			collected = nil
			shares, err := s.tell(ctx, last)
			if err != nil {
				return err
			}
			last = shares
		}
	}
}

// tell announces the ResourceSlices whose shares have moved, since last or from what their status says, and returns all.
func (s *sharing) tell(ctx context.Context, last map[types.NamespacedName]peering.Share) (map[types.NamespacedName]peering.Share, error) {
	facts, err := s.gather(ctx)
	if err != nil {
		return nil, err
	}
	shares := peering.Shares(s.policy, facts)
	for i := range facts.Slices {
		slice := &facts.Slices[i]
		key := client.ObjectKeyFromObject(slice)
		if before, there := last[key]; peering.Moved(slice, shares[key]) || there && !equality.Semantic.DeepEqual(before, shares[key]) {
			s.moved.announce(key)
		}
	}
	return shares, nil
}

// gather reads everything that shares follow from.
func (s *sharing) gather(ctx context.Context) (peering.SharingFacts, error) {
	var nodes corev1.NodeList
	var pods corev1.PodList
	var slices authv1beta1.ResourceSliceList
	var tenants authv1beta1.TenantList
	var offers sharingv1alpha1.ResourceOfferList
	for _, read := range []struct {
		from client.Reader
		list client.ObjectList
		opts []client.ListOption
	}{
		{s.stock, &nodes, nil}, {s.stock, &pods, nil},
		{s.client, &slices, []client.ListOption{client.MatchingLabels{api.LabelReplicated: api.True}}},
		{s.client, &tenants, nil}, {s.client, &offers, nil},
	} {
		if err := read.from.List(ctx, read.list, append(read.opts, client.UnsafeDisableDeepCopy)...); err != nil {
			return peering.SharingFacts{}, fmt.Errorf("listing what is shared: %w", err)
		}
	}
	return peering.SharingFacts{Nodes: nodes.Items, Pods: pods.Items, Slices: slices.Items, Tenants: tenants.Items, Offers: offers.Items}, nil
}

// listen takes note of all that shares follow from, and returns when all of it is known.
func (s *sharing) listen(ctx context.Context) error {
	for _, watch := range []struct {
		from cache.Cache
		kind client.Object
	}{
		{s.stock, &corev1.Node{}}, {s.stock, &corev1.Pod{}},
		{s.informers, &authv1beta1.ResourceSlice{}}, {s.informers, &authv1beta1.Tenant{}}, {s.informers, &sharingv1alpha1.ResourceOffer{}},
	} {
		informer, err := watch.from.GetInformer(ctx, watch.kind)
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: func(any) { s.hear() }, DeleteFunc: func(any) { s.hear() },
				UpdateFunc: func(before, after any) {
					if !sameStock(before, after) {
						s.hear()
					}
				},
			})
		}
		if err != nil {
			return fmt.Errorf("watching %T: %w", watch.kind, err)
		}
	}
	if !s.stock.WaitForCacheSync(ctx) { // it is started at this very moment, and refuses to be read before
		return context.Cause(ctx)
	}
	return nil
}

func (s *sharing) hear() {
	select {
	case s.news <- struct{}{}:
	default: // it is known that there are news
	}
}

// sameStock tells whether two versions of a Node or Pod of the stock count for the same: nearly all changes of them say nothing about what is free.
func sameStock(before, after any) bool {
	switch before := before.(type) {
	case *corev1.Node:
		after, ok := after.(*corev1.Node)
		return ok && equality.Semantic.DeepEqual(before.Spec, after.Spec) && equality.Semantic.DeepEqual(before.Status, after.Status) &&
			before.DeletionTimestamp.Equal(after.DeletionTimestamp)
	case *corev1.Pod:
		after, ok := after.(*corev1.Pod)
		return ok && equality.Semantic.DeepEqual(before.Spec, after.Spec) && reflect.DeepEqual(before.Labels, after.Labels)
	}
	return false
}
