package reflection

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// View is a read-only cache of a Resource.
type View struct{ store *store }

// NewView returns an empty View. changed is called after every change and once the content is complete, possibly from several goroutines.
func NewView(r Resource, changed func()) *View {
	return &View{store: newStore(r, func(types.NamespacedName, client.Object, client.Object) { changed() }, changed)}
}

// NewObservedView returns an empty View. changed is called after every change, with the object before and after the change, nil if there is none. complete is
// called once the content is complete. Both may be called from several goroutines.
func NewObservedView(r Resource, changed func(before, now client.Object), complete func()) *View {
	return &View{store: newStore(r, func(_ types.NamespacedName, before, now client.Object) { changed(before, now) }, complete)}
}

// With returns the objects for which the Index of the Resource contains value. The objects must not be changed.
func (v *View) With(value string) []client.Object {
	var out []client.Object
	for _, key := range v.store.with(value) {
		if obj := v.store.get(key); obj != nil {
			out = append(out, obj)
		}
	}
	return out
}

// Run keeps the View up to date with the objects of namespace (all namespaces if empty) until ctx ends.
func (v *View) Run(ctx context.Context, c client.WithWatch, namespace string) error {
	return watchInto(ctx, c, namespace, v.store)
}

// Get returns an object, nil if there is none. The object must not be changed.
func (v *View) Get(namespace, name string) client.Object {
	return v.store.get(types.NamespacedName{Namespace: namespace, Name: name})
}

// List returns all objects. The objects must not be changed.
func (v *View) List() []client.Object { return v.store.list() }

// Wrote stores the response to a write, so that the next Get returns that state or a later one.
func (v *View) Wrote(obj client.Object) { v.store.wrote(obj) }

// Synced reports whether the content is complete.
func (v *View) Synced() bool { return v.store.hasSynced() }
