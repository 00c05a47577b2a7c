package reflect

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// View keeps a Resource at hand for whoever only reads it.
type View struct{ store *store }

// NewView makes a View. changed is called, possibly from several goroutines, after every change and once the content is complete.
func NewView(r Resource, changed func()) *View {
	return &View{store: newStore(r, func(types.NamespacedName, client.Object, client.Object) { changed() }, changed)}
}

// Run keeps the View up to date with the objects of namespace (all namespaces if empty) until ctx ends.
func (v *View) Run(ctx context.Context, c client.WithWatch, namespace string) error {
	return watchInto(ctx, c, namespace, v.store)
}

// Get returns an object, nil if there is none. It must not be changed.
func (v *View) Get(namespace, name string) client.Object {
	return v.store.get(types.NamespacedName{Namespace: namespace, Name: name})
}

// List returns all objects. They must not be changed.
func (v *View) List() []client.Object { return v.store.list() }

// Wrote takes an object as a write returned it, so that the next Get is not older than that.
func (v *View) Wrote(obj client.Object) { v.store.wrote(obj) }

// Synced tells whether the content is complete.
func (v *View) Synced() bool { return v.store.hasSynced() }
