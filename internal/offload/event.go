package offload

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/offload/kinds"
)

// EventFacts holds the inputs of a decision about an Event of the provider and its copy in this cluster.
type EventFacts struct {
	// Local is the copy and Remote the provider's Event; nil if there is none. Local may belong to another owner.
	Local, Remote *corev1.Event
	// About is the local object that Remote is about, and RemoteObject the provider's counterpart of About; nil if there is none.
	About, RemoteObject Object
	Mapping             Mapping
	// Synced reports whether the caches behind Local and Remote are complete.
	Synced bool
}

// NextEvent decides what to do about an Event of the provider. A provider may have several virtual nodes, each with a virtual kubelet. Each virtual kubelet
// copies the Events of its own pods, because the others do not know these pods. Only the leader copies all other Events: o.Waiting is empty in the leader only.
func NextEvent(f EventFacts, o kinds.CopyOptions) Step {
	switch {
	case f.Mapping.State != Mapped:
		return Step{Why: "its namespace has no remote namespace"}
	case !f.Synced:
		return Step{Why: "the provider is unreachable, or the objects of both clusters were not read yet"}
	case f.Local != nil && !kinds.OwnsEvent(f.Local, o):
		return Step{Why: "the name is taken"}
	}
	if f.Remote == nil {
		switch {
		case f.Local == nil:
			return Step{Why: "the event is gone"}
		case o.Waiting != "":
			return Step{Why: o.Waiting}
		default:
			return Step{Action: DeleteLocal, Object: f.Local, Why: "the event is gone"}
		}
	}
	if _, pod := f.About.(*corev1.Pod); !pod && o.Waiting != "" {
		return Step{Why: o.Waiting}
	}
	want, why := kinds.Event(f.Remote, f.About, f.RemoteObject, o)
	if want == nil {
		return Step{Why: why}
	}
	kinds.LocalEventTimes(want, f.Local, o.Now)
	if f.Local == nil {
		return Step{Action: CreateLocal, Object: want, Why: "the provider reported it"}
	}
	if out, change := kinds.MergeEvent(f.Local, want); change != kinds.Same {
		return Step{Action: PatchLocal, Object: out, Old: f.Local, Why: "the provider updated it"}
	}
	return Step{Why: "the copy is up to date"}
}
