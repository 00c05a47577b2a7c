package reflect

import (
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// Names of the kinds that follow an offloaded namespace.
const (
	ServiceKind       = "Service"
	EndpointSliceKind = "EndpointSlice"
)

// copies returns the Kind of objects of which there are copies in the provider, and of which nothing comes back. The options are asked for
// at every decision; the cluster IDs in them must not change.
func copies(name string, workers int, o kinds.CopyOptions, local, remote client.Object, next func(Facts) offload.Step) Kind {
	ours := labels.Set{api.LabelOrigin: o.Origin, api.LabelDestination: o.Destination}
	return Kind{
		Name: name, Workers: workers, Mapped: true,
		Local: Resource{Object: local},
		// One that is not ours is let through when it is read by name: Next must see that the name is taken.
		Remote: []Resource{{Object: remote, Labels: ours.String(), Counted: name}},
		Next:   next,
		Refused: func(_ client.Object, action offload.Action, message string) (offload.Step, bool) {
			return offload.Step{Why: "the provider refuses it", Warning: message}, action == offload.CreateRemote || action == offload.PatchRemote
		},
	}
}

// object is obj, or nothing at all: an interface that holds none must not look like one that holds something.
func object(obj client.Object) offload.Object {
	if obj == nil {
		return nil
	}
	return obj
}

// merge gives a function of one type the shape that CopyRules has.
func merge[T offload.Object](f func(have, want T) (T, kinds.Change)) func(have, want offload.Object) (offload.Object, kinds.Change) {
	return func(have, want offload.Object) (offload.Object, kinds.Change) {
		h, ok := have.(T)
		w, ok2 := want.(T)
		if !ok || !ok2 {
			return nil, kinds.Same
		}
		return f(h, w)
	}
}
