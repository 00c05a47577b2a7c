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
	"liqo.io/liqo/internal/peering/sharing"
	"liqo.io/liqo/internal/trigger"
)

// +kubebuilder:rbac:groups=core,resources=nodes;pods,verbs=get;list;watch

// sharingWindow is the default time for which changes of nodes and pods are collected before the shares are computed again.
const sharingWindow = 3 * time.Second

// sharer computes the share of each ResourceSlice in this cluster, and announces ResourceSlices whose share changed. It stores no shares:
// they follow from the content of caches.
type sharer struct {
	client client.Client
	// informers is the cache of the manager. stock is a cache of the nodes and pods of this cluster.
	informers, stock cache.Cache
	policy           sharing.Policy
	// window is how long changes are collected before the shares are computed again.
	window time.Duration
	moved  announcer

	// wanted is closed at the first request for a share, known when all caches have synced.
	wanted, known chan struct{}
	want          sync.Once
	news          trigger.Trigger
}

// newSharer returns the sharer of a manager. It watches nothing before the first ResourceSlice of a consumer, so that clusters without
// consumers have no overhead.
func newSharer(mgr ctrl.Manager, c client.Client, policy sharing.Policy, window time.Duration) (*sharer, error) {
	stock, err := newStock(mgr)
	if err != nil {
		return nil, err
	}
	return &sharer{
		client: c, informers: mgr.GetCache(), stock: stock, policy: policy, window: window,
		wanted: make(chan struct{}), known: make(chan struct{}), news: trigger.New(),
	}, nil
}

// shareOf returns the current share of one ResourceSlice. It blocks until all caches have synced.
func (s *sharer) shareOf(ctx context.Context, slice *authv1beta1.ResourceSlice) (sharing.Share, error) {
	s.want.Do(func() { close(s.wanted) })
	select {
	case <-ctx.Done():
		return sharing.Share{}, ctx.Err()
	case <-s.known:
	}
	facts, err := s.gather(ctx)
	if err != nil {
		return sharing.Share{}, err
	}
	return sharing.Shares(s.policy, facts)[client.ObjectKeyFromObject(slice)], nil
}

// Start waits for the first request for a share, then collects changes and announces changed shares until ctx ends.
func (s *sharer) Start(ctx context.Context) error {
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
	var last map[types.NamespacedName]sharing.Share
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
			shares, err := s.publish(ctx, last)
			if err != nil {
				return err
			}
			last = shares
		}
	}
}

// publish computes all shares and returns them. It announces each ResourceSlice whose share differs from its share in last, or from its status.
func (s *sharer) publish(ctx context.Context, last map[types.NamespacedName]sharing.Share) (map[types.NamespacedName]sharing.Share, error) {
	facts, err := s.gather(ctx)
	if err != nil {
		return nil, err
	}
	shares := sharing.Shares(s.policy, facts)
	for i := range facts.Slices {
		slice := &facts.Slices[i]
		key := client.ObjectKeyFromObject(slice)
		if before, there := last[key]; sharing.Moved(slice, shares[key]) || there && !equality.Semantic.DeepEqual(before, shares[key]) {
			s.moved.announce(key)
		}
	}
	return shares, nil
}

// gather reads everything that determines the shares.
func (s *sharer) gather(ctx context.Context) (sharing.Facts, error) {
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
			return sharing.Facts{}, fmt.Errorf("listing the shared resources: %w", err)
		}
	}
	return sharing.Facts{Nodes: nodes.Items, Pods: pods.Items, Slices: slices.Items, Tenants: tenants.Items, Offers: offers.Items}, nil
}

// listen watches everything that determines the shares, and returns when the cache of nodes and pods has synced.
func (s *sharer) listen(ctx context.Context) error {
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
				AddFunc: func(any) { s.news.Fire() }, DeleteFunc: func(any) { s.news.Fire() },
				UpdateFunc: func(before, after any) {
					if !sameStock(before, after) {
						s.news.Fire()
					}
				},
			})
		}
		if err != nil {
			return fmt.Errorf("watching %T: %w", watch.kind, err)
		}
	}
	if !s.stock.WaitForCacheSync(ctx) { // the cache can't be read before it has synced, and is being started right now
		return context.Cause(ctx)
	}
	return nil
}

// sameStock reports whether two versions of a Node or Pod are equal as far as shares are concerned. Most updates of them do not affect the
// free resources.
func sameStock(before, after any) bool {
	switch before := before.(type) {
	case *corev1.Node:
		after, ok := after.(*corev1.Node)
		return ok && equality.Semantic.DeepEqual(before.Spec, after.Spec) && equality.Semantic.DeepEqual(before.Status, after.Status) &&
			before.DeletionTimestamp.Equal(after.DeletionTimestamp) && reflect.DeepEqual(before.Labels, after.Labels)
	case *corev1.Pod:
		after, ok := after.(*corev1.Pod)
		return ok && equality.Semantic.DeepEqual(before.Spec, after.Spec) && reflect.DeepEqual(before.Labels, after.Labels)
	}
	return false
}
