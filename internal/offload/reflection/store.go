package reflection

import (
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/trigger"
)

// Resource is a set of objects to watch in a cluster.
type Resource struct {
	// Object is an empty object of the kind.
	Object client.Object
	// Labels and Fields restrict the set, as in a list request; empty means all.
	Labels, Fields string
	// Matches reports whether an object that was read by name belongs to the set; nil means that every object does.
	Matches func(client.Object) bool
	// Name converts a local name into the name of the object in the provider. LocalNameOf returns the local name for such an object, or an empty
	// string if there is none. Nil means the functions of the Kind. Only for sets that are watched in the provider.
	Name        func(string) string
	LocalNameOf func(metav1.Object) string
	// Former returns the name that earlier releases gave the object. It is tried if no object has the current name; nil means none.
	Former func(string) string
	// Counted is the kind under which these objects are counted as reflected; empty means that they are not counted. Strip must keep their labels.
	Counted string
	// Strip removes, in place, the fields that are never read, before the object is stored; nil keeps everything.
	Strip func(client.Object)
	// Index returns the values by which a stripped object can be looked up besides its name; nil means none.
	Index func(client.Object) []string
}

// store caches a Resource of one cluster and reports which objects changed. In addition to watch events, it stores the responses to our own writes,
// so that no decision relies on a state that we know to be outdated.
type store struct {
	resource Resource
	// changed is called with the previous and the current state of an object, nil where there is none. The store calls it on watch events and after
	// our own deletions that removed the object.
	changed func(key types.NamespacedName, before, now client.Object)
	// arrived, if set, is called with the name of an object that is new, or that replaced another object of its name. The source may be the watch or
	// the response to our own write.
	arrived func(types.NamespacedName)
	// complete is called when the store has the complete list for the first time, and again after a refused list made the store incomplete.
	complete func()

	// now, if set, returns the time to record for a new object.
	now func() time.Time

	// refusals is the clock for refused reads: the store records when a refusal happened. nil means that it records none.
	refusals func() time.Time
	// accessChanged is called when the server starts or stops refusing reads, and when a refused list makes the store incomplete.
	accessChanged func()
	// refusedRead fires when the server starts refusing reads by name.
	refusedRead trigger.Trigger

	mu sync.RWMutex
	// refused is the time of the first refused read, the zero time while reads are allowed.
	refused time.Time
	// since is when each known object was first observed, with its UID; filled only if now is set.
	since   map[types.NamespacedName]arrival
	objects map[types.NamespacedName]client.Object
	// index maps each index value to the names of the objects that have it.
	index  map[string]map[types.NamespacedName]struct{}
	synced bool
	// answered means that the API server returned a complete list, or refused one.
	answered bool
	// version is the resource version of the last list or watch event.
	version string
	// written are the objects that our own writes changed since the current list was requested. That list may be older than the write.
	written map[types.NamespacedName]struct{}
}

// arrival is the time when an object was first observed.
type arrival struct {
	uid types.UID
	at  time.Time
}

func newStore(r Resource, changed func(key types.NamespacedName, before, now client.Object), complete func()) *store {
	return &store{
		resource: r, changed: changed, complete: complete,
		objects: map[types.NamespacedName]client.Object{}, index: map[string]map[types.NamespacedName]struct{}{},
		since: map[types.NamespacedName]arrival{}, written: map[types.NamespacedName]struct{}{}, refusedRead: trigger.New(),
	}
}

// arrivedAt returns when the object was first observed, the zero time if there is no such object or now is not set.
func (s *store) arrivedAt(key types.NamespacedName) time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.since[key].at
}

// put stores obj, which must be stripped already; nil removes the object with that name. The caller holds the lock.
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

// with returns the names of the objects whose Index contains value.
func (s *store) with(value string) []types.NamespacedName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.index[value]))
}

// announce calls arrived if the object that is stored now is another one than before, or if there was none before. Call it without holding the lock.
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

// count returns the number of objects that match the resource's labels. Objects that were read by name may not match.
func (s *store) count() int {
	selector, err := labels.Parse(s.resource.Labels)
	if err != nil {
		return 0 // the API server rejects such a list as well
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

// hasAnswer reports whether the API server has ever returned a complete list, or refused one.
func (s *store) hasAnswer() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.answered
}

// refuse records a refused read and returns the time of the first one. A refused list also makes the store incomplete.
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
	if changed && !list {
		s.refusedRead.Fire()
	}
	return at
}

// allow records a successful read.
func (s *store) allow() {
	s.mu.Lock()
	changed := !s.refused.IsZero()
	s.refused = time.Time{}
	s.mu.Unlock()
	if changed {
		s.accessChanged()
	}
}

// refusedAt returns the time of the first refused read, the zero time while reads are allowed.
func (s *store) refusedAt() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.refused
}

// wrote stores the response to our own write, unless the watch has already reported a later state.
func (s *store) wrote(obj client.Object) {
	key := client.ObjectKeyFromObject(obj)
	before, known := s.take(key, obj)
	if !known {
		s.announce(key, before, obj)
	}
}

// take stores obj unless the known state is at least as recent. It returns the previous state and whether obj was skipped.
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

// deleted records that the API server accepted our deletion: the object, if it is still known with the same UID, is terminating from now on.
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

// removed records that our deletion removed the object with that UID. If a finalizer still holds it, the watch reports that. The store calls the
// callback changed here, because no watch event or list reports the removal of an object that the store no longer has.
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

// strip removes the fields of obj that are never read.
func (s *store) strip(obj client.Object) client.Object {
	obj.SetManagedFields(nil)
	if s.resource.Strip != nil {
		s.resource.Strip(obj)
	}
	return obj
}

// after reports whether version a is later than b. If the versions can't be compared, it returns false.
func after(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
