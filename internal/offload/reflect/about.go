package reflect

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// subject is the value by which what is about an object of the provider is found.
func subject(kind, name string) string { return kind + "/" + name }

// bySubject indexes objects of the provider by what they are about.
func bySubject(about func(client.Object) (kind, name string)) func(client.Object) []string {
	return func(obj client.Object) []string { return []string{subject(about(obj))} }
}

// pair finds what an object of the provider is about, here and there.
func (e *Engine) pair(t *twin, obj client.Object, about func(client.Object) (kind, name string)) (here, there client.Object) {
	kind, name := about(obj)
	for _, r := range e.kinds {
		if local := r.LocalName(name); r.Name == kind && local != "" {
			return r.store(t).get(types.NamespacedName{Namespace: t.local, Name: local}), t.stores[r][0].get(types.NamespacedName{Namespace: t.remote, Name: name})
		}
	}
	return nil, nil
}

// enqueueAbout has everything looked at that is about the object of that name in the provider: when it came, that object, or its pair here, may
// have been unknown, and then it was about nothing. Nothing is kept for that: what the provider still has is in the store.
func (r *reflector) enqueueAbout(t *twin, name string) {
	for _, other := range r.engine.kinds {
		if other.About == nil {
			continue
		}
		for _, key := range t.stores[other][0].with(subject(r.Name, name)) {
			other.enqueueRemote(t, 0, key)
		}
	}
}

// arrivedHere does so for an object here.
func (r *reflector) arrivedHere(t *twin) func(types.NamespacedName) {
	return func(key types.NamespacedName) {
		if name := r.remoteName(0, key.Name); name != "" {
			r.enqueueAbout(t, name)
		}
	}
}

// arrivedAnywhere does so for an object here of a kind that is not Mapped, if its namespace has a twin.
func (r *reflector) arrivedAnywhere(key types.NamespacedName) {
	r.engine.mu.Lock()
	t := r.engine.twins[key.Namespace]
	r.engine.mu.Unlock()
	if t != nil {
		r.arrivedHere(t)(key)
	}
}
