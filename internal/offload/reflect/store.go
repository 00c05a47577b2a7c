package reflect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Resource is one set of objects that is watched in a cluster.
type Resource struct {
	// Object is an empty object of the kind.
	Object client.Object
	// Labels and Fields restrict the set, as in a list request; empty means all.
	Labels, Fields string
	// Matches tells whether an object that was read by name belongs to the set; nil means any does.
	Matches func(client.Object) bool
	// Name is the name, there, of the object that belongs to one of that name here, and LocalName the way back, empty where there is none. Nil means
	// as the Kind says. Only for what is watched in the provider.
	Name, LocalName func(string) string
	// Former is the name that earlier releases gave it, where there is none of that name; nil for none.
	Former func(string) string
	// Counted is the kind as which the objects count that are reflected here; empty if they do not. Their labels must be kept.
	Counted string
	// Strip removes from an object, in place, what nobody reads, before it is kept; nil keeps all.
	Strip func(client.Object)
	// Index returns the values by which an object, stripped, is found beside its name; nil for none.
	Index func(client.Object) []string
}

// store keeps a Resource of one cluster in memory and says which objects changed. Beside the watch it takes what our own writes
// returned, so that nothing is decided on a state that we know is past.
type store struct {
	resource Resource
	// changed is told the name of an object with what was known and what is known now, nil where there is none: when the watch tells of it, and when we
	// took it away.
	changed func(key types.NamespacedName, before, now client.Object)
	// arrived, if set, is told the name of an object that was not known before, or was another one of its name, whoever told of it: the watch, or the
	// answer to a write of ours.
	arrived func(types.NamespacedName)
	// complete is called when the content is known whole for the first time.
	complete func()

	// now, if set, is asked for the time when an object comes.
	now func() time.Time

	// refusals, if set, is asked for the time when a read is refused, and accessChanged is called when that begins or ends.
	refusals      func() time.Time
	accessChanged func()

	mu sync.RWMutex
	// refused is since when reads are refused, zero while they are not.
	refused time.Time
	// since is when what is known of an object, by UID, became known; of those that are, and only if now is set.
	since   map[types.NamespacedName]arrival
	objects map[types.NamespacedName]client.Object
	// index holds the names of the objects that have a value.
	index  map[string]map[types.NamespacedName]struct{}
	synced bool
	// version is up to where the watch has told.
	version string
	// written are the objects whose last news was the answer to a write of ours, since the present list was asked for: it may have been made before the write.
	written map[types.NamespacedName]struct{}
}

// arrival is when an object became known.
type arrival struct {
	uid types.UID
	at  time.Time
}

func newStore(r Resource, changed func(key types.NamespacedName, before, now client.Object), complete func()) *store {
	return &store{
		resource: r, changed: changed, complete: complete,
		objects: map[types.NamespacedName]client.Object{}, index: map[string]map[types.NamespacedName]struct{}{},
		since: map[types.NamespacedName]arrival{}, written: map[types.NamespacedName]struct{}{},
	}
}

// listing notes that a list is asked for: it holds what was written before.
func (s *store) listing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.written)
}

// arrivedAt is when the object became known, the zero time if there is none or nobody asks.
func (s *store) arrivedAt(key types.NamespacedName) time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.since[key].at
}

// put keeps obj, which is stripped already; nil removes what has that name. The caller holds the lock.
func (s *store) put(key types.NamespacedName, obj client.Object) {
	if have := s.objects[key]; have != nil && s.resource.Index != nil {
		for _, value := range s.resource.Index(have) {
			delete(s.index[value], key)
			if len(s.index[value]) == 0 {
				delete(s.index, value)
			}
		}
	}
	if obj == nil {
		delete(s.objects, key)
		delete(s.since, key)
		return
	}
	s.objects[key] = obj
	if s.now != nil && s.since[key].uid != obj.GetUID() {
		s.since[key] = arrival{obj.GetUID(), s.now()}
	}
	if s.resource.Index == nil {
		return
	}
	for _, value := range s.resource.Index(obj) {
		if s.index[value] == nil {
			s.index[value] = map[types.NamespacedName]struct{}{}
		}
		s.index[value][key] = struct{}{}
	}
}

// with returns the names of the objects that have a value.
func (s *store) with(value string) []types.NamespacedName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.index[value]))
}

// announce tells of an object that was put where before was, once the lock is given back.
func (s *store) announce(key types.NamespacedName, before, now client.Object) {
	if s.arrived != nil && now != nil && (before == nil || before.GetUID() != now.GetUID()) {
		s.arrived(key)
	}
}

// get returns the object, nil if there is none. It must not be changed.
func (s *store) get(key types.NamespacedName) client.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects[key]
}

// keys returns the names of all objects.
func (s *store) keys() []types.NamespacedName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]types.NamespacedName, 0, len(s.objects))
	for key := range maps.Keys(s.objects) {
		out = append(out, key)
	}
	return out
}

// count returns how many of the objects belong to the set; others were read by name.
func (s *store) count() int {
	selector, err := labels.Parse(s.resource.Labels)
	if err != nil {
		return 0 // no list is answered either
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := 0
	for _, obj := range s.objects {
		if selector.Matches(labels.Set(obj.GetLabels())) {
			n++
		}
	}
	return n
}

// list returns all objects. They must not be changed.
func (s *store) list() []client.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]client.Object, 0, len(s.objects))
	for _, obj := range s.objects {
		out = append(out, obj)
	}
	return out
}

func (s *store) hasSynced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.synced
}

// refuse records that a read was refused, and since when that is so. After a list that was refused, what is known is no longer the whole truth.
func (s *store) refuse(list bool) time.Time {
	if s.refusals == nil {
		return time.Time{}
	}
	s.mu.Lock()
	changed := s.refused.IsZero() || list && s.synced
	if s.refused.IsZero() {
		s.refused = s.refusals()
	}
	if list {
		s.synced = false
	}
	at := s.refused
	s.mu.Unlock()
	if changed {
		s.accessChanged()
	}
	return at
}

// allow records that a read was answered.
func (s *store) allow() {
	s.mu.Lock()
	changed := !s.refused.IsZero()
	s.refused = time.Time{}
	s.mu.Unlock()
	if changed {
		s.accessChanged()
	}
}

// refusedAt is since when reads are refused, zero while they are not.
func (s *store) refusedAt() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.refused
}

// wrote takes an object as a write of ours returned it, unless the watch already told something later.
func (s *store) wrote(obj client.Object) {
	key := client.ObjectKeyFromObject(obj)
	before, known := s.take(key, obj)
	if !known {
		s.announce(key, before, obj)
	}
}

// take puts obj unless as much is known already, and returns what was there.
func (s *store) take(key types.NamespacedName, obj client.Object) (before client.Object, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.objects[key]
	if after(s.version, obj.GetResourceVersion()) || before != nil && !after(obj.GetResourceVersion(), before.GetResourceVersion()) {
		return before, true
	}
	s.put(key, s.strip(obj))
	s.written[key] = struct{}{}
	return before, false
}

// deleted notes that a delete of ours was accepted: the very object, if it is still known, is on its way out from now on.
func (s *store) deleted(obj client.Object, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(obj)
	have := s.objects[key]
	if have == nil || have.GetUID() != obj.GetUID() || have.GetDeletionTimestamp() != nil {
		return
	}
	dying := have.DeepCopyObject().(client.Object)
	dying.SetDeletionTimestamp(&metav1.Time{Time: now})
	s.put(key, dying)
}

// removed notes that a delete of ours took the very object away. If something still holds it, the watch will tell. Of what is known to be gone a list
// tells nothing, so it is told of now.
func (s *store) removed(obj client.Object) {
	key := client.ObjectKeyFromObject(obj)
	s.mu.Lock()
	have := s.objects[key]
	known := have != nil && have.GetUID() == obj.GetUID()
	if known {
		s.put(key, nil)
	}
	s.mu.Unlock()
	if known {
		s.changed(key, have, nil)
	}
}

// Add is part of cache.ReflectorStore.
func (s *store) Add(obj any) error { return s.Update(obj) }

// Update is part of cache.ReflectorStore.
func (s *store) Update(obj any) error {
	o, ok := obj.(client.Object)
	if !ok {
		return fmt.Errorf("taking a watch event: %T is not an object", obj)
	}
	key := client.ObjectKeyFromObject(o)
	s.mu.Lock()
	s.version = o.GetResourceVersion()
	// Our own write may have told more than this event does.
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

// Delete is part of cache.ReflectorStore.
func (s *store) Delete(obj any) error {
	o, ok := obj.(client.Object)
	if !ok {
		return fmt.Errorf("taking a watch event: %T is not an object", obj)
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

// Replace is part of cache.ReflectorStore. The list is taken whole, whatever its version: after etcd was restored from a backup versions are lower than they were,
// and the same one may be another state of an object.
func (s *store) Replace(list []any, version string) error {
	fresh := make(map[types.NamespacedName]client.Object, len(list))
	for _, item := range list {
		o, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("taking a list: %T is not an object", item)
		}
		fresh[client.ObjectKeyFromObject(o)] = s.strip(o)
	}
	s.mu.Lock()
	old, first, told := s.objects, !s.synced, s.version
	for key := range s.written { // what we wrote after the list was made
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
	s.synced, s.version = true, version
	s.mu.Unlock()
	for key, have := range old {
		if fresh[key] == nil {
			s.changed(key, have, nil)
		}
	}
	for key, obj := range fresh {
		// The answer to a write of ours holds what others wrote before it, of which only the watch would have told.
		if have := old[key]; have == nil || after(have.GetResourceVersion(), told) || !equality.Semantic.DeepEqual(have, obj) {
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

// Resync is part of cache.ReflectorStore; nothing here forgets, so there is nothing to repeat.
func (s *store) Resync() error { return nil }

// Bookmark is part of cache.ReflectorBookmarkStore.
func (s *store) Bookmark(version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
	return nil
}

// strip takes away from obj what nobody reads.
func (s *store) strip(obj client.Object) client.Object {
	obj.SetManagedFields(nil)
	if s.resource.Strip != nil {
		s.resource.Strip(obj)
	}
	return obj
}

// after tells whether version a is later than b. Versions that can't be compared are taken as not later.
func after(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// heed records a list or watch that was refused.
func (s *store) heed(err error) error {
	if apierrors.IsForbidden(err) {
		s.refuse(true)
	}
	return err
}

// watchInto keeps s up to date with the objects of namespace (all namespaces if empty) until ctx ends. Its first list is never
// older than its beginning.
func watchInto(ctx context.Context, c client.WithWatch, namespace string, s *store) error {
	gvk, err := apiutil.GVKForObject(s.resource.Object, c.Scheme())
	if err != nil {
		return fmt.Errorf("watching %T: %w", s.resource.Object, err)
	}
	newList := func() (client.ObjectList, error) {
		list, err := c.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err != nil {
			return nil, err
		}
		typed, ok := list.(client.ObjectList)
		if !ok {
			return nil, errors.New("its list is not a list")
		}
		return typed, nil
	}
	if _, err := newList(); err != nil {
		return fmt.Errorf("watching %s: %w", gvk.Kind, err)
	}
	// A list from the past would bring back objects that are gone, and hide those that are there and what we wrote.
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
