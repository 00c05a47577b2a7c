package reflection

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// isLocal reports whether an object is of the kind that is watched in this cluster.
func (r *reflector) isLocal(obj client.Object) bool {
	return fmt.Sprintf("%T", obj) == fmt.Sprintf("%T", r.Local.Object)
}

// wroteHere records the result of our own write of a local object.
func (r *reflector) wroteHere(t *watchedNamespace, obj client.Object) {
	if r.isLocal(obj) {
		if s := r.store(t); s != nil {
			s.wrote(obj)
		}
	} else if r.Other != nil {
		r.Other(obj)
	}
}

// removedHere records that our deletion removed a local object.
func (r *reflector) removedHere(t *watchedNamespace, obj client.Object) {
	if s := r.store(t); s != nil && r.isLocal(obj) {
		s.removed(obj)
	}
}
