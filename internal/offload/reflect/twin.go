package reflect

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload"
)

// Beside is a set of local objects on which decisions about other ones of the same namespace depend.
type Beside struct {
	Resource
	// Concerns returns, for an object that changed, the values in Kind.Local.Index of those that must be looked at again.
	Concerns func(client.Object) []string
}

// Neighbours are the objects of a Beside that are in one namespace.
type Neighbours struct {
	store     *store
	namespace string
}

// Get returns the one of that name, nil if there is none. It must not be changed.
func (n Neighbours) Get(name string) client.Object {
	return n.store.get(types.NamespacedName{Namespace: n.namespace, Name: name})
}

// With returns those that have a value in their Index. They must not be changed.
func (n Neighbours) With(value string) []client.Object {
	var out []client.Object
	for _, key := range n.store.with(value) {
		if obj := n.store.get(key); obj != nil {
			out = append(out, obj)
		}
	}
	return out
}

// twin is a mapped namespace being watched in the provider, and of Mapped kinds here.
type twin struct {
	local, remote string
	// copied tells that what Mapped kinds copy is watched here as well, and followed since: not for one that only the provider says to have.
	copied bool
	cancel context.CancelFunc
	stores map[*reflector][]*store
	here   map[*reflector]*store
	beside map[*reflector][]*store
}

// settle starts and stops the watches in the provider so that they fit the map and the health of the link.
func (e *Engine) settle(ctx context.Context) {
	want := map[string]offload.Mapping{}
	if e.opts.Health.State().Up && e.nsmap.hasSynced() {
		if m := e.namespaceMap(); m != nil {
			for local := range m.Status.CurrentMapping {
				if at := offload.MappingOf(m, local); at.Namespace != "" {
					want[local] = at
				}
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for local, t := range e.twins {
		if at := want[local]; at.Namespace != t.remote || at.State == offload.Mapped && !t.copied {
			t.cancel()
			delete(e.twins, local)
		} else if at.State != offload.Mapped {
			t.copied = false // what changes now is not copied: once it is mapped again, everything is looked at
		}
	}
	for local, at := range want {
		if e.twins[local] == nil {
			e.twins[local] = e.watchTwin(ctx, local, at)
		}
	}
	// What the map says decides about objects whose namespace has no twin, too, and about some in other namespaces.
	for _, r := range e.kinds {
		if !r.Mapped {
			r.enqueueAll(r.local)
			continue
		}
		for _, t := range e.twins {
			if r.Everywhere {
				r.enqueueTwin(t)
			}
		}
	}
}

// newTwin makes the stores of one namespace. When they are complete, everything in it is looked at.
func (e *Engine) newTwin(local, namespace string) *twin {
	t := &twin{
		local: local, remote: namespace,
		stores: map[*reflector][]*store{}, here: map[*reflector]*store{}, beside: map[*reflector][]*store{},
	}
	for _, r := range e.kinds {
		complete := func() {
			r.enqueueTwin(t)
			for _, other := range e.kinds { // what was about something unknown may be about something now
				if other.About != nil {
					other.enqueueTwin(t)
				}
			}
		}
		for i, resource := range r.Remote {
			changed := func(key types.NamespacedName, _, _ client.Object) { r.enqueueRemote(t, i, key) }
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

// watchTwin starts the watches of one namespace, when all of its stores are there.
func (e *Engine) watchTwin(ctx context.Context, local string, at offload.Mapping) *twin {
	t := e.newTwin(local, at.Namespace)
	t.copied = at.State == offload.Mapped
	ctx, t.cancel = context.WithCancel(ctx)
	start := func(c client.WithWatch, where string, s *store) {
		go func() {
			if err := watchInto(ctx, c, where, s); err != nil {
				e.opts.Log.Error("Watching a namespace", "namespace", where, "error", err)
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

// newBeside makes the store of a Beside whose changes concern objects in here.
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

// store returns where the local objects of a namespace are, t being its twin; nil if nowhere.
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

// enqueueTwin has every object of a namespace looked at, wherever it is.
func (r *reflector) enqueueTwin(t *twin) {
	for _, key := range r.store(t).keys() {
		if key.Namespace == t.local {
			r.enqueue(key)
		}
	}
	r.enqueueThere(t)
}

// enqueueThere has every object looked at that the provider has of a namespace, also of those that are gone here.
func (r *reflector) enqueueThere(t *twin) {
	for i, s := range t.stores[r] {
		for _, key := range s.keys() {
			r.enqueueRemote(t, i, key)
		}
	}
}

// enqueueRemote has the object here looked at to which the one of that name in Remote[i] belongs.
func (r *reflector) enqueueRemote(t *twin, i int, key types.NamespacedName) {
	back := r.LocalName
	if own := r.Remote[i].LocalName; own != nil {
		back = own
	}
	if name := back(key.Name); name != "" {
		here := types.NamespacedName{Namespace: t.local, Name: name}
		r.queue.Forget(here)
		r.queue.addTold(here)
	}
}

// remoteName is the name that the object in Remote[i] has which belongs to the one of that name here.
func (r *reflector) remoteName(i int, local string) string {
	if own := r.Remote[i].Name; own != nil {
		return own(local)
	}
	return r.RemoteName(local)
}
