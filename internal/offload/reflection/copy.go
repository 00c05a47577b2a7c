package reflection

import (
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// Kind.Name of Services and EndpointSlices.
const (
	ServiceKind       = "Service"
	EndpointSliceKind = "EndpointSlice"
)

// copies returns a Kind whose objects are copied to the provider and whose remote state is not reflected back. Its callers read their options at
// every decision; the cluster IDs in the options must not change.
func copies(name string, workers int, o kinds.CopyOptions, local, remote client.Object, next func(Facts) offload.Step) Kind {
	ours := labels.Set{api.LabelOrigin: o.Origin, api.LabelDestination: o.Destination}
	return Kind{
		Name: name, Workers: workers, Mapped: true,
		Local: Resource{Object: local},
		// Labels restricts only the watch. A read by name also returns an object of another creator, so that Next sees that the name is in use.
		Remote: []Resource{{Object: remote, Labels: ours.String(), Counted: name}},
		Next:   next,
		Refused: func(_ client.Object, action offload.Action, message string) (offload.Step, bool) {
			return offload.Step{Why: "the provider refuses it", Warning: message}, action == offload.CreateRemote || action == offload.PatchRemote
		},
	}
}

// object converts obj, and turns a nil client.Object into a nil offload.Object.
func object(obj client.Object) offload.Object {
	if obj == nil {
		return nil
	}
	return obj
}

// merge adapts a merge function of one type to the signature in offload.CopyRules.
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
