package controllers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/internal/trigger"
)

// link is the connection to one provider.
type link struct {
	clusterID, namespace, remoteNamespace string
	// secret is the name of the Secret that has the link's kubeconfig.
	secret string
	sum    [sha256.Size]byte
	all    *links
	cfg    *rest.Config
	mapper meta.RESTMapper
	health *remote.Health
	cancel context.CancelFunc
	// doubts triggers a check of the rights, after the provider refused a request.
	doubts trigger.Trigger
	// live reads from and writes to the provider's API server without a cache.
	live client.Client

	mu sync.Mutex
	// cached holds, by kind, the cache of this cluster's copies in the provider. A kind has no entry until its cache has synced.
	cached map[string]client.Reader
	since  time.Time
	wasUp  bool
	// refused is the error with which the provider denies this cluster all access, since refusedSince; empty while it grants access.
	refused      string
	refusedSince time.Time
	// exceeded describes, by kind, how the copies in the provider exceed the limits.
	exceeded map[string]string
}

// grace is how long the first response of a remote API server may take before the server counts as down. Until then its state is unknown,
// so that a restart of this controller manager does not change the reported state of other clusters.
const grace = 15 * time.Second

// Limits of the memory and the time that the responses of a provider use in this process, so that a hostile provider does not break the links to
// other providers. A provider of this release has at most 200 copies of a kind (peering.TenantObjects).
const (
	mostCopies     = 1000
	copiesBytes    = 16 << 20
	responsesBytes = 32 << 20
	responsesTime  = 2 * time.Minute // ends a response that a provider sends slowly, byte by byte
)

func (l *links) open(cfg *rest.Config, clusterID, namespace, remoteNamespace string) (*link, error) {
	cfg = rest.CopyConfig(cfg)
	remote.LimitResponses(cfg, responsesBytes, 0, responsesTime)
	if l.observe != nil {
		remote.Observe(cfg, func(method string, took time.Duration) { l.observe(clusterID, method, took) })
	}
	k := &link{
		clusterID: clusterID, namespace: namespace, remoteNamespace: remoteNamespace, all: l, cfg: cfg, since: time.Now(),
		mapper: staticMapper(l.scheme), doubts: trigger.New(),
	}
	var err error
	if k.health, err = remote.NewHealth(cfg, l.health); err != nil {
		return nil, err
	}
	if k.live, err = client.New(cfg, client.Options{Scheme: l.scheme, Mapper: k.mapper}); err != nil {
		return nil, fmt.Errorf("creating a client for cluster %s: %w", clusterID, err)
	}
	return k, nil
}

// staticMapper returns a mapper for the kinds that this cluster uses in a provider, so that no discovery is needed there.
func staticMapper(scheme *runtime.Scheme) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range peering.Kinds() {
		if gvk, err := apiutil.GVKForObject(kind.New(), scheme); err == nil {
			mapper.Add(gvk, meta.RESTScopeNamespace)
		}
	}
	mapper.Add(authv1beta1.GroupVersion.WithKind("Tenant"), meta.RESTScopeNamespace) // see resign
	return mapper
}

// run follows the health of the provider. While the provider is up, run watches the copies there. While it is down, nothing is known about
// them.
func (k *link) run(ctx context.Context) {
	changed := k.health.Subscribe()
	k.all.done.Go(func() { _ = k.health.Run(ctx) }) // it returns nil when ctx ends
	overdue := time.NewTimer(grace)
	defer overdue.Stop()
	rights := time.NewTimer(k.rightsInterval())
	defer rights.Stop()
	stop := func() {}
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-overdue.C:
		case <-k.doubts:
			rights.Reset(0)
			continue
		case <-rights.C:
			changed := k.askForRights(ctx)
			rights.Reset(k.rightsInterval())
			if !changed {
				continue
			}
			if !k.isRefused() { // access is granted again: restart the watches now, as their retries may be in a long backoff
				stop()
				k.forget(ctx)
				stop = k.startWatching(ctx)
			}
			k.all.resync.announce(types.NamespacedName{Name: k.namespace})
		case <-changed:
			state := k.health.State()
			k.logReachable(state)
			stop()
			k.forget(ctx)
			k.answered(state.Up)
			if state.Up {
				k.askForRights(ctx)
				rights.Reset(k.rightsInterval())
				stop = k.startWatching(ctx)
			}
			k.all.resync.announce(types.NamespacedName{Name: k.namespace})
		}
		k.all.peers.announce(types.NamespacedName{Name: k.clusterID})
	}
}

// logReachable logs when the provider's API server stops responding, and when it responds again.
func (k *link) logReachable(state remote.State) {
	if state.Up {
		k.all.log.Info("The API server of the provider responds", "clusterID", k.clusterID)
	} else {
		k.all.log.Info("The API server of the provider does not respond", "clusterID", k.clusterID, "error", errorText(state.Err))
	}
}

// How often a link checks whether the provider still grants access, because no watch reports that. The check is rare while the provider
// grants access, and frequent while it does not, because then users wait for the access to return.
const (
	rightsEvery = 30 * time.Second
	rightsSoon  = time.Second
)

func (k *link) rightsInterval() time.Duration {
	if k.isRefused() {
		return min(rightsSoon, k.all.rightsEvery)
	}
	return k.all.rightsEvery
}

// isRefused reports whether the provider denied all access at the last check.
func (k *link) isRefused() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refused != ""
}

// deniedSince returns the time since which the provider has refused this cluster all requests, or rejected its identity; zero if it does not.
func (k *link) deniedSince() time.Time {
	if state := k.health.State(); errors.Is(state.Err, remote.ErrUnauthorized) {
		return state.Since
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refusedSince
}

// doubt triggers a check of the rights now, because the provider refused a request.
func (k *link) doubt() { k.doubts.Fire() }

// askForRights checks whether this cluster's identity still has access in the provider, and reports whether the result changed.
func (k *link) askForRights(ctx context.Context) bool {
	if !k.up() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	err := k.live.List(ctx, &authv1beta1.ResourceSliceList{}, client.InNamespace(k.remoteNamespace), client.Limit(1))
	refused := ""
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		refused = err.Error()
	case err != nil:
		return false // the error says nothing about rights
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	changed := k.refused != refused
	if refused == "" {
		k.refusedSince = time.Time{}
	} else if k.refused == "" {
		k.refusedSince = time.Now()
	}
	k.refused = refused
	return changed
}

// startWatching watches this cluster's copies until the returned function is called. Each kind has a cache of its own, so that a kind that
// the provider's release does not know blocks no other kind.
func (k *link) startWatching(ctx context.Context) context.CancelFunc {
	ctx, stop := context.WithCancel(ctx)
	for _, kind := range peering.Kinds() {
		k.all.done.Go(func() { k.watch(ctx, kind) })
	}
	return stop
}

// watch runs a cache of this cluster's copies of one kind in the provider until ctx ends.
func (k *link) watch(ctx context.Context, kind peering.Kind) {
	measured := func(err error) {
		if ctx.Err() != nil || !k.measured(kind.Name, err) {
			return
		}
		if err != nil {
			k.all.log.Error(err, "The copies of this cluster's objects in the provider exceed the limits of the cache", "clusterID", k.clusterID, "kind", kind.Name)
		}
		k.all.peers.announce(types.NamespacedName{Name: k.clusterID})
	}
	copies, err := cache.New(k.cfg, cache.Options{
		Scheme: k.all.scheme, Mapper: k.mapper,
		DefaultNamespaces:    map[string]cache.Config{k.remoteNamespace: {}},
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{api.LabelOriginID: k.all.own}),
		DefaultTransform:     cache.TransformStripManagedFields(),
		NewInformer: func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformer(remote.LimitCache(lw, remote.Limits{Objects: mostCopies, Bytes: copiesBytes}, measured), obj, resync, indexers)
		},
	})
	if err != nil {
		k.all.log.Error(err, "Failed to watch the copies of this cluster's objects in the provider", "clusterID", k.clusterID, "kind", kind.Name)
		return
	}
	listeners := k.all.objects[kind.Name]
	announce := func(o client.Object) {
		listeners.announce(types.NamespacedName{Namespace: k.namespace, Name: o.GetName()})
	}
	if _, err := kube.Follow[client.Object](ctx, copies, kind.New(), announce, announce, cache.BlockUntilSynced(false)); err != nil {
		k.all.log.Error(err, "Failed to watch the copies of this cluster's objects in the provider", "clusterID", k.clusterID, "kind", kind.Name)
		return
	}
	k.all.done.Go(func() {
		if copies.WaitForCacheSync(ctx) && k.know(ctx, kind.Name, copies) {
			k.all.resync.announce(types.NamespacedName{Name: k.namespace})
		}
	})
	if err := copies.Start(ctx); err != nil && ctx.Err() == nil {
		k.all.log.Error(err, "Stopped watching the copies of this cluster's objects in the provider", "clusterID", k.clusterID, "kind", kind.Name)
	}
}

// measured records whether the copies of a kind exceed the limits: err describes the excess, and is nil if there is none. It reports whether that has
// changed.
func (k *link) measured(kind string, err error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := errorText(err)
	if k.exceeded[kind] == now {
		return false
	}
	if k.exceeded == nil {
		k.exceeded = map[string]string{}
	}
	if k.exceeded[kind] = now; now == "" {
		delete(k.exceeded, kind)
	}
	return true
}

// know makes the synced cache of a kind available to copies, and returns true. If ctx, the context of that cache, has ended, it only returns false.
func (k *link) know(ctx context.Context, kind string, cached client.Reader) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	if k.cached == nil {
		k.cached = map[string]client.Reader{}
	}
	k.cached[kind] = cached
	return true
}

// forget drops all caches, unless ctx, the context of the link, has ended.
func (k *link) forget(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ctx.Err() == nil {
		k.cached = nil
	}
}

func (k *link) answered(up bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wasUp = k.wasUp || up
}

// copies returns the cache of this cluster's copies of a kind in the provider; nil as long as it has not synced.
func (k *link) copies(kind string) client.Reader {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cached[kind]
}

// up reports whether the provider's API server is up.
func (k *link) up() bool { return k.health.State().Up }

func (k *link) probe(now time.Time) *peering.Probe {
	state := k.health.State()
	k.mu.Lock()
	known, refused, exceeded := k.wasUp || now.Sub(k.since) >= grace, k.refused, maps.Clone(k.exceeded)
	k.mu.Unlock()
	if !state.Up && !known {
		return nil
	}
	return &peering.Probe{
		Up: state.Up, Message: errorText(state.Err), Unauthorized: errors.Is(state.Err, remote.ErrUnauthorized), Refused: refused, Exceeded: exceeded,
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
