package offload

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/offload/kinds"
)

// EventFacts are what is decided on about an Event of the provider and its copy here.
type EventFacts struct {
	// Local is the copy and Remote the Event; nil if there is none. Local may be somebody else's.
	Local, Remote *corev1.Event
	// About is the object here that Remote is about, and Twin what the provider has of that; nil where there is none.
	About, Twin Object
	Mapping     Mapping
	// Synced tells that Local and Remote are the whole truth.
	Synced bool
}

// NextEvent decides what to do about an Event of the provider. Of several virtual kubelets for a provider each tells about its own pods,
// since it alone knows them, and the one that options do not keep waiting about everything else.
func NextEvent(f EventFacts, o kinds.CopyOptions) Step {
	switch {
	case f.Mapping.State != Mapped:
		return Step{Why: "its namespace has no twin"}
	case !f.Synced:
		return Step{Why: "the provider does not answer, or what both sides have was not read yet"}
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
	want, why := kinds.Event(f.Remote, f.About, f.Twin, o)
	switch {
	case want == nil:
		return Step{Why: why}
	case f.Local == nil:
		return Step{Action: CreateLocal, Object: want, Why: "the provider tells of it"}
	}
	if out, change := kinds.MergeEvent(f.Local, want); change != kinds.Same {
		return Step{Action: PatchLocal, Object: out, Old: f.Local, Why: "the provider tells more of it"}
	}
	return Step{Why: "the copy is right"}
}
