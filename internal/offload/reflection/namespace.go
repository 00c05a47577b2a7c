package reflection

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload"
)

// Dependency is a set of local objects on which decisions about other objects of the same namespace depend.
type Dependency struct {
	Resource
	// Concerns returns, for a changed object, the values in Kind.Local.Index of the objects to reconcile.
	Concerns func(client.Object) []string
}

// DependencyObjects are the objects of a Dependency in one namespace.
type DependencyObjects struct {
	store     *store
	namespace string
}

// Get returns the object with that name, nil if there is none. It must not be changed.
func (n DependencyObjects) Get(name string) client.Object {
	return n.store.get(types.NamespacedName{Namespace: n.namespace, Name: name})
}

// With returns the objects whose Index contains value. They must not be changed.
func (n DependencyObjects) With(value string) []client.Object {
	var out []client.Object
	for _, key := range n.store.with(value) {
		if obj := n.store.get(key); obj != nil {
			out = append(out, obj)
		}
	}
	return out
}

// watchedNamespace holds the watches of a remote namespace, and for Mapped kinds also the watches of its local namespace.
type watchedNamespace struct {
	local, remote string
	// copied means that the local objects of Mapped kinds have been watched and copied without interruption. It is false once the namespace is no
	// longer in the state Mapped, for example when only the provider still reports the remote namespace.
	copied       bool
	cancel       context.CancelFunc
	stores       map[*reflector][]*store
	here         map[*reflector]*store
	dependencies map[*reflector][]*store
	drain        drainReport
}

// wanted returns the mappings of the local namespaces whose remote namespaces have to be watched now.
func (e *Engine) wanted() map[string]offload.Mapping {
	want := map[string]offload.Mapping{}
	m := e.namespaceMap()
	if m == nil || !e.opts.Health.State().Up || !e.nsmap.hasSynced() {
		return want
	}
	for local := range m.Status.CurrentMapping {
		if at := offload.MappingOf(m, local); at.Namespace != "" {
			want[local] = at
		}
	}
	return want
}

// settle starts and stops the watches in the provider according to the NamespaceMap and the provider's health.
func (e *Engine) settle(ctx context.Context) {
	if e.rewatch(ctx, e.wanted()) {
		e.opts.AccessChanged() // the provider may have refused access to a namespace that is no longer watched
	}
}

// rewatch starts and stops watches so that the wanted namespaces are watched. It reports whether it stopped any.
func (e *Engine) rewatch(ctx context.Context, want map[string]offload.Mapping) (stopped bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for local, t := range e.namespaces {
		if at := want[local]; at.Namespace != t.remote || at.State == offload.Mapped && !t.copied {
			t.cancel()
			delete(e.namespaces, local)
			stopped = true
		} else if at.State != offload.Mapped {
			t.copied = false // changes from now on are not copied: when it is mapped again, a new watch reconciles everything
		}
	}
	for local, at := range want {
		if e.namespaces[local] == nil {
			e.namespaces[local] = e.watchNamespace(ctx, local, at)
		}
	}
	// The NamespaceMap also affects objects whose namespace has no remote namespace, and for some kinds objects in other namespaces.
	for _, r := range e.kinds {
		if !r.Mapped {
			r.enqueueAll(r.local)
			continue
		}
		for _, t := range e.namespaces {
			if r.DependsOnAllMappings {
				r.enqueueNamespace(t)
			}
		}
	}
	return stopped
}

// newWatchedNamespace creates the stores of one namespace. When a store is complete, the objects of its kind in the namespace are enqueued.
func (e *Engine) newWatchedNamespace(local, namespace string) *watchedNamespace {
	t := &watchedNamespace{
		local: local, remote: namespace,
		stores: map[*reflector][]*store{}, here: map[*reflector]*store{}, dependencies: map[*reflector][]*store{},
	}
	for _, r := range e.kinds {
		complete := func() {
			r.enqueueNamespace(t)
			for _, other := range e.kinds { // an object that referred to an unknown object may refer to a known one now
				if other.About != nil {
					other.enqueueNamespace(t)
				}
			}
		}
		for i, resource := range r.Remote {
			changed := func(key types.NamespacedName, before, now client.Object) { r.enqueueRemote(t, i, key, now, before) }
			if i == 0 && r.About != nil {
				resource.Index = bySubject(r.About)
			}
			s := newStore(resource, changed, complete)
			if i == 0 && r.Revoked {
				s.complete = func() { complete(); e.opts.AccessChanged() } // the namespace is readable
			}
			if i == 0 {
				if r.TracksFirstSeen {
					s.now = e.opts.Clock.Now
				}
				s.arrived = func(key types.NamespacedName) { r.enqueueAbout(t, key.Name) }
				if r.Revoked {
					s.refusals = e.opts.Clock.Now
					s.accessChanged = func() { r.enqueueNamespace(t); e.opts.AccessChanged() }
				}
			}
			t.stores[r] = append(t.stores[r], s)
		}
		if !r.Mapped {
			continue
		}
		here := newStore(r.Local, r.add, complete)
		here.arrived = r.arrivedHere(t)
		t.here[r] = here
		for _, b := range r.Dependencies {
			t.dependencies[r] = append(t.dependencies[r], newDependency(b, here, r.queue.Add, complete))
		}
	}
	return t
}

// watchNamespace starts the watches of one namespace, after newWatchedNamespace has created all of its stores.
func (e *Engine) watchNamespace(ctx context.Context, local string, at offload.Mapping) *watchedNamespace {
	t := e.newWatchedNamespace(local, at.Namespace)
	t.copied = at.State == offload.Mapped
	ctx, t.cancel = context.WithCancel(ctx)
	run := func(where string, watch func() error) {
		go func() {
			if err := watch(); err != nil {
				e.opts.Log.Error("Failed to watch a namespace", "namespace", where, "error", err)
			}
		}()
	}
	start := func(c client.WithWatch, where string, s *store) {
		run(where, func() error { return watchInto(ctx, c, where, s) })
	}
	for _, r := range e.kinds {
		for _, s := range t.stores[r] {
			start(e.opts.Remote, t.remote, s)
		}
		if r.Revoked {
			run(t.remote, func() error {
				return watchAccess(ctx, e.opts.Remote, t.remote, t.stores[r][0], e.opts.Clock, e.opts.RequestTimeout)
			})
		}
		if !t.copied || !r.Mapped {
			continue
		}
		for _, s := range t.dependencies[r] {
			start(e.opts.Local, local, s)
		}
		start(e.opts.Local, local, t.here[r])
	}
	return t
}

// newDependency creates the store of a Dependency. A change in it enqueues those dependents that the change concerns.
func newDependency(b Dependency, dependents *store, enqueue func(types.NamespacedName), complete func()) *store {
	return newStore(b.Resource, func(_ types.NamespacedName, before, now client.Object) {
		for _, obj := range []client.Object{before, now} {
			if obj == nil {
				continue
			}
			for _, value := range b.Concerns(obj) {
				for _, key := range dependents.with(value) {
					enqueue(key)
				}
			}
		}
	}, complete)
}

// store returns the store with the local objects of the namespace of t. It returns nil if the kind is Mapped and t is nil.
func (r *reflector) store(t *watchedNamespace) *store {
	switch {
	case !r.Mapped:
		return r.local
	case t == nil:
		return nil
	default:
		return t.here[r]
	}
}

// enqueueNamespace enqueues every local and every remote object of a namespace.
func (r *reflector) enqueueNamespace(t *watchedNamespace) {
	for _, key := range r.store(t).keys() {
		if key.Namespace == t.local {
			r.enqueue(key)
		}
	}
	r.enqueueThere(t)
}

// enqueueThere enqueues every object that the provider has in a remote namespace, including objects that no longer exist in this cluster.
func (r *reflector) enqueueThere(t *watchedNamespace) {
	for i, s := range t.stores[r] {
		for _, key := range s.keys() {
			r.enqueueRemote(t, i, key, s.get(key))
		}
	}
}

// enqueueRemote enqueues the local object that corresponds to the object of that name in Remote[i]. states are the known states of the remote object,
// the most recent first; each may be nil.
func (r *reflector) enqueueRemote(t *watchedNamespace, i int, key types.NamespacedName, states ...client.Object) {
	if name := r.localName(i, key.Name, states); name != "" {
		here := types.NamespacedName{Namespace: t.local, Name: name}
		r.queue.Forget(here)
		r.queue.addRemoteTriggered(here)
		if r.urgent != nil && i == 0 && slices.ContainsFunc(states, func(obj client.Object) bool { return obj != nil && r.Urgent(obj) }) {
			r.urgent.Add(here)
		}
	}
}

// localName returns the name of the local object that corresponds to the object of that name in Remote[i]; see enqueueRemote.
func (r *reflector) localName(i int, remote string, states []client.Object) string {
	own := r.Remote[i].LocalNameOf
	if own == nil {
		return r.LocalName(remote)
	}
	for _, obj := range states {
		if obj == nil {
			continue
		}
		if name := own(obj); name != "" {
			return name
		}
	}
	return ""
}

// remoteName returns the name that a local object has in Remote[i].
func (r *reflector) remoteName(i int, local string) string {
	if own := r.Remote[i].Name; own != nil {
		return own(local)
	}
	return r.RemoteName(local)
}
