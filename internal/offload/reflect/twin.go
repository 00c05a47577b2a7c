package reflect

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload"
)

// Beside is a set of local objects on which decisions about other objects of the same namespace depend.
type Beside struct {
	Resource
	// Concerns returns, for a changed object, the values in Kind.Local.Index of the objects to reconcile.
	Concerns func(client.Object) []string
}

// Neighbours are the objects of a Beside in one namespace.
type Neighbours struct {
	store     *store
	namespace string
}

// Get returns the object with that name, nil if there is none. It must not be changed.
func (n Neighbours) Get(name string) client.Object {
	return n.store.get(types.NamespacedName{Namespace: n.namespace, Name: name})
}

// With returns the objects that have a value in their Index. They must not be changed.
func (n Neighbours) With(value string) []client.Object {
	var out []client.Object
	for _, key := range n.store.with(value) {
		if obj := n.store.get(key); obj != nil {
			out = append(out, obj)
		}
	}
	return out
}

// twin holds the watches of a remote namespace, and for Mapped kinds also the watches of its local namespace.
type twin struct {
	local, remote string
	// copied tells that the local objects of Mapped kinds have been watched and copied without interruption. It is false once the namespace is no
	// longer in the state Mapped, for example when only the provider still reports the remote namespace.
	copied bool
	cancel context.CancelFunc
	stores map[*reflector][]*store
	here   map[*reflector]*store
	beside map[*reflector][]*store
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
	want := e.wanted()
	e.mu.Lock()
	defer e.mu.Unlock()
	for local, t := range e.twins {
		if at := want[local]; at.Namespace != t.remote || at.State == offload.Mapped && !t.copied {
			t.cancel()
			delete(e.twins, local)
		} else if at.State != offload.Mapped {
			t.copied = false // changes from now on are not copied: when it is mapped again, a new watch reconciles everything
		}
	}
	for local, at := range want {
		if e.twins[local] == nil {
			e.twins[local] = e.watchTwin(ctx, local, at)
		}
	}
	// The NamespaceMap also affects objects whose namespace has no remote namespace, and for some kinds objects in other namespaces.
	for _, r := range e.kinds {
		if !r.Mapped {
			r.enqueueAll(r.local)
			continue
		}
		for _, t := range e.twins {
			if r.DependsOnAllMappings {
				r.enqueueTwin(t)
			}
		}
	}
}

// newTwin creates the stores of one namespace. When a store is complete, the objects of its kind in the namespace are enqueued.
func (e *Engine) newTwin(local, namespace string) *twin {
	t := &twin{
		local: local, remote: namespace,
		stores: map[*reflector][]*store{}, here: map[*reflector]*store{}, beside: map[*reflector][]*store{},
	}
	for _, r := range e.kinds {
		complete := func() {
			r.enqueueTwin(t)
			for _, other := range e.kinds { // an object that referred to an unknown object may refer to a known one now
				if other.About != nil {
					other.enqueueTwin(t)
				}
			}
		}
		for i, resource := range r.Remote {
			changed := func(key types.NamespacedName, before, now client.Object) { r.enqueueRemote(t, i, key, now, before) }
			if i == 0 && r.About != nil {
				resource.Index = bySubject(r.About)
			}
			s := newStore(resource, changed, complete)
			if i == 0 {
				if r.Waits {
					s.now = e.opts.Clock.Now
				}
				s.arrived = func(key types.NamespacedName) { r.enqueueAbout(t, key.Name) }
				if r.Revoked {
					s.refusals = e.opts.Clock.Now
					s.accessChanged = func() { r.enqueueTwin(t); e.opts.AccessChanged() }
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
		for _, b := range r.Beside {
			t.beside[r] = append(t.beside[r], newBeside(b, here, r.queue.Add, complete))
		}
	}
	return t
}

// watchTwin starts the watches of one namespace, after newTwin has created all of its stores.
func (e *Engine) watchTwin(ctx context.Context, local string, at offload.Mapping) *twin {
	t := e.newTwin(local, at.Namespace)
	t.copied = at.State == offload.Mapped
	ctx, t.cancel = context.WithCancel(ctx)
	start := func(c client.WithWatch, where string, s *store) {
		go func() {
			if err := watchInto(ctx, c, where, s); err != nil {
				e.opts.Log.Error("Failed to watch a namespace", "namespace", where, "error", err)
			}
		}()
	}
	for _, r := range e.kinds {
		for _, s := range t.stores[r] {
			start(e.opts.Remote, t.remote, s)
		}
		if !t.copied || !r.Mapped {
			continue
		}
		for _, s := range t.beside[r] {
			start(e.opts.Local, local, s)
		}
		start(e.opts.Local, local, t.here[r])
	}
	return t
}

// newBeside creates the store of a Beside. A change in it enqueues the objects in here that the change concerns.
func newBeside(b Beside, here *store, enqueue func(types.NamespacedName), complete func()) *store {
	return newStore(b.Resource, func(_ types.NamespacedName, before, now client.Object) {
		for _, obj := range []client.Object{before, now} {
			if obj == nil {
				continue
			}
			for _, value := range b.Concerns(obj) {
				for _, key := range here.with(value) {
					enqueue(key)
				}
			}
		}
	}, complete)
}

// store returns the store with the local objects of the namespace of t. It returns nil if the kind is Mapped and t is nil.
func (r *reflector) store(t *twin) *store {
	switch {
	case !r.Mapped:
		return r.local
	case t == nil:
		return nil
	default:
		return t.here[r]
	}
}

// enqueueTwin enqueues every local and every remote object of a namespace.
func (r *reflector) enqueueTwin(t *twin) {
	for _, key := range r.store(t).keys() {
		if key.Namespace == t.local {
			r.enqueue(key)
		}
	}
	r.enqueueThere(t)
}

// enqueueThere enqueues every object that the provider has in a remote namespace, including objects that are gone in this cluster.
func (r *reflector) enqueueThere(t *twin) {
	for i, s := range t.stores[r] {
		for _, key := range s.keys() {
			r.enqueueRemote(t, i, key, s.get(key))
		}
	}
}

// enqueueRemote enqueues the local object that corresponds to the object of that name in Remote[i]. states are the known states of the remote object,
// the most recent first; each may be nil.
func (r *reflector) enqueueRemote(t *twin, i int, key types.NamespacedName, states ...client.Object) {
	if name := r.localName(i, key.Name, states); name != "" {
		here := types.NamespacedName{Namespace: t.local, Name: name}
		r.queue.Forget(here)
		r.queue.addRemoteTriggered(here)
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
