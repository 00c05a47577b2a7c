package reflection

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// subject returns the index value of remote objects that refer to the object with that kind and name.
func subject(kind, name string) string { return kind + "/" + name }

// bySubject indexes remote objects by the object that they refer to.
func bySubject(about func(client.Object) (kind, name string)) func(client.Object) []string {
	return func(obj client.Object) []string { return []string{subject(about(obj))} }
}

// pair returns the local and the remote object that a remote object refers to; each may be nil.
func (e *Engine) pair(t *watchedNamespace, obj client.Object, about func(client.Object) (kind, name string)) (here, there client.Object) {
	kind, name := about(obj)
	for _, r := range e.kinds {
		if local := r.LocalName(name); r.Name == kind && local != "" {
			return r.store(t).get(types.NamespacedName{Namespace: t.local, Name: local}), t.stores[r][0].get(types.NamespacedName{Namespace: t.remote, Name: name})
		}
	}
	return nil, nil
}

// enqueueAbout enqueues all objects that refer to the remote object with that name. Call it when that object or its local counterpart is new: objects
// that refer to it may have arrived earlier, and were skipped then. The engine need not remember them, because the store still holds them.
func (r *reflector) enqueueAbout(t *watchedNamespace, name string) {
	for _, other := range r.engine.kinds {
		if other.About == nil {
			continue
		}
		for _, key := range t.stores[other][0].with(subject(r.Name, name)) {
			other.enqueueRemote(t, 0, key, t.stores[other][0].get(key))
		}
	}
}

// arrivedHere returns a callback that calls enqueueAbout for a new local object.
func (r *reflector) arrivedHere(t *watchedNamespace) func(types.NamespacedName) {
	return func(key types.NamespacedName) {
		if name := r.remoteName(0, key.Name); name != "" {
			r.enqueueAbout(t, name)
		}
	}
}

// arrivedAnywhere calls enqueueAbout for a new local object of a kind that is not Mapped, if its namespace has a remote namespace.
func (r *reflector) arrivedAnywhere(key types.NamespacedName) {
	r.engine.mu.Lock()
	t := r.engine.namespaces[key.Namespace]
	r.engine.mu.Unlock()
	if t != nil {
		r.arrivedHere(t)(key)
	}
}
