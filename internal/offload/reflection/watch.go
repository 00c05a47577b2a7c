package reflection

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// listing records that a list is requested now: it will contain all earlier writes.
func (s *store) listing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.written)
}

// Add implements cache.ReflectorStore.
func (s *store) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *store) Update(obj any) error {
	o, ok := obj.(client.Object)
	if !ok {
		return fmt.Errorf("receiving a watch event: %T is not an object", obj)
	}
	key := client.ObjectKeyFromObject(o)
	s.mu.Lock()
	s.version = o.GetResourceVersion()
	// The response to our own write may be more recent than this event.
	before := s.objects[key]
	if before == nil || !after(before.GetResourceVersion(), o.GetResourceVersion()) {
		s.put(key, s.strip(o))
	}
	now := s.objects[key]
	s.mu.Unlock()
	s.changed(key, before, now)
	s.announce(key, before, now)
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *store) Delete(obj any) error {
	o, ok := obj.(client.Object)
	if !ok {
		return fmt.Errorf("receiving a watch event: %T is not an object", obj)
	}
	key := client.ObjectKeyFromObject(o)
	s.mu.Lock()
	s.version = o.GetResourceVersion()
	before := s.objects[key]
	s.put(key, nil)
	s.mu.Unlock()
	s.changed(key, before, nil)
	return nil
}

// Replace implements cache.ReflectorStore. It accepts the list whatever its version. After a restore of etcd from a backup, versions are lower than
// before, and an equal version may be another state of an object.
func (s *store) Replace(list []any, version string) error {
	fresh := make(map[types.NamespacedName]client.Object, len(list))
	for _, item := range list {
		o, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("receiving a list: %T is not an object", item)
		}
		fresh[client.ObjectKeyFromObject(o)] = s.strip(o)
	}
	s.mu.Lock()
	old, first, known := s.objects, !s.synced, s.version
	for key := range s.written { // written after the API server made the list
		if have := old[key]; have != nil && after(have.GetResourceVersion(), version) {
			fresh[key] = have
		}
	}
	clear(s.written)
	s.objects, s.index = map[types.NamespacedName]client.Object{}, map[string]map[types.NamespacedName]struct{}{}
	for key, obj := range fresh {
		s.put(key, obj)
	}
	for key := range s.since {
		if fresh[key] == nil {
			delete(s.since, key)
		}
	}
	s.synced, s.answered, s.version = true, true, version
	s.mu.Unlock()
	for key, have := range old {
		if fresh[key] == nil {
			s.changed(key, have, nil)
		}
	}
	for key, obj := range fresh {
		// An object stored by our own write may contain earlier changes by others. No watch event reported those, so compare versions, not only
		// content.
		if have := old[key]; have == nil || after(have.GetResourceVersion(), known) || !equality.Semantic.DeepEqual(have, obj) {
			s.changed(key, have, obj)
			s.announce(key, have, obj)
		}
	}
	s.allow()
	if first {
		s.complete()
	}
	return nil
}

// Resync implements cache.ReflectorStore. It does nothing: every change is already reported when it happens.
func (s *store) Resync() error { return nil }

// Bookmark implements cache.ReflectorBookmarkStore.
func (s *store) Bookmark(version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
	return nil
}

// heed records a list or watch that the API server refused, and returns err unchanged. A kind that the API server does not know counts as refused,
// too.
func (s *store) heed(err error) error {
	forbidden := apierrors.IsForbidden(err)
	if forbidden {
		s.refuse(true)
	}
	if forbidden || apierrors.IsNotFound(err) {
		s.mu.Lock()
		s.answered = true
		s.mu.Unlock()
	}
	return err
}

// newListOf returns an empty list of a kind.
func newListOf(scheme *runtime.Scheme, gvk schema.GroupVersionKind) (client.ObjectList, error) {
	list, err := scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	typed, ok := list.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("type %sList is not a client.ObjectList", gvk.Kind)
	}
	return typed, nil
}

// accessCheckInterval is the time between two checks whether the provider still refuses reads. A drain refuses all namespaces of a consumer at once, and
// each of them is checked.
const accessCheckInterval = 5 * time.Second

// watchAccess observes when the provider allows reads again, for a store whose watch stayed open while reads by name were refused. The API server
// checks permissions only when a watch starts, so such a watch reports neither the refusal nor its end, and there may be no object that is read by
// name again. watchAccess does not close that watch, because it reports how the objects in the provider end. Each check takes at most timeout.
// watchAccess returns when ctx ends.
func watchAccess(ctx context.Context, c client.WithWatch, namespace string, s *store, clk clock.Clock, timeout time.Duration) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.refusedRead:
		}
		// An incomplete store needs no check: its reflector lists again until that succeeds.
		for !s.refusedAt().IsZero() && s.hasSynced() {
			select {
			case <-ctx.Done():
				return nil
			case <-clk.After(accessCheckInterval):
			}
			err := readOne(ctx, c, namespace, s, timeout)
			if err == nil {
				s.allow()
			}
		}
	}
}

// readOne lists at most one object of the store's kind in a namespace. It returns nil if the provider allows that.
func readOne(ctx context.Context, c client.WithWatch, namespace string, s *store, timeout time.Duration) error {
	gvk, err := apiutil.GVKForObject(s.resource.Object, c.Scheme())
	if err != nil {
		return fmt.Errorf("checking the access to %T: %w", s.resource.Object, err)
	}
	list, err := newListOf(c.Scheme(), gvk)
	if err != nil {
		return fmt.Errorf("checking the access to %s: %w", gvk.Kind, err)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return c.List(limited, list, client.InNamespace(namespace), client.Limit(1))
}

// accessProbeInterval is the time between two checks whether the provider still allows reads, while nothing shows that it does not.
const accessProbeInterval = 15 * time.Second

// probeAccess detects that the provider revoked the permissions while nothing is read by name. The API server checks permissions only when a watch
// starts, so an open watch hides the revocation for up to ten minutes. probeAccess returns when ctx ends.
func (e *Engine) probeAccess(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.opts.Clock.After(accessProbeInterval):
		}
		if e.opts.Health.State().Up {
			e.probe(ctx)
		}
	}
}

// probe reads any remote namespace that the provider has not refused so far. If the provider refuses it now, probe reads the next one, because a drain
// refuses all of them. So while the provider allows reads, probe sends a single request, however many namespaces there are.
func (e *Engine) probe(ctx context.Context) {
	e.mu.Lock()
	namespaces := maps.Clone(e.namespaces)
	e.mu.Unlock()
	for _, t := range namespaces {
		for _, r := range e.kinds {
			if !r.Revoked || !t.stores[r][0].hasSynced() || !t.stores[r][0].refusedAt().IsZero() {
				continue
			}
			if err := readOne(ctx, e.opts.Remote, t.remote, t.stores[r][0], e.opts.RequestTimeout); !apierrors.IsForbidden(err) {
				return // it is allowed, or the error says nothing about permissions
			}
			e.drained(ctx, t, t.stores[r][0].refuse(false))
		}
	}
}

// watchInto keeps s up to date with the objects of namespace (all namespaces if empty) until ctx ends. Its first list is never older than the call.
func watchInto(ctx context.Context, c client.WithWatch, namespace string, s *store) error {
	gvk, err := apiutil.GVKForObject(s.resource.Object, c.Scheme())
	if err != nil {
		return fmt.Errorf("watching %T: %w", s.resource.Object, err)
	}
	newList := func() (client.ObjectList, error) { return newListOf(c.Scheme(), gvk) }
	if _, err := newList(); err != nil {
		return fmt.Errorf("watching %s: %w", gvk.Kind, err)
	}
	// A list served from an old cache would restore deleted objects. It would also hide new objects and our own writes.
	present := func(o metav1.ListOptions) metav1.ListOptions {
		if o.Continue == "" {
			s.listing()
			o.ResourceVersion = ""
		}
		return o
	}
	restrict := func(o metav1.ListOptions) *client.ListOptions {
		o.LabelSelector, o.FieldSelector = s.resource.Labels, s.resource.Fields
		return &client.ListOptions{Namespace: namespace, Limit: o.Limit, Continue: o.Continue, Raw: &o}
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := newList()
			if err != nil {
				return nil, err
			}
			return list, s.heed(c.List(ctx, list, restrict(present(o))))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			list, err := newList()
			if err != nil {
				return nil, err
			}
			if o.SendInitialEvents != nil && *o.SendInitialEvents {
				o = present(o)
			}
			w, err := c.Watch(ctx, list, restrict(o))
			return w, s.heed(err)
		},
	}
	r := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, c), s.resource.Object, s, cache.ReflectorOptions{
		Name:    gvk.Kind + " " + namespace,
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Steps: 8, Cap: 10 * time.Second, Jitter: 0.5},
	})
	r.RunWithContext(ctx)
	return nil
}
