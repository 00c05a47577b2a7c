package kube

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
)

// noteLimit is how long the note of an Event may be, in bytes (API events.k8s.io/v1). A longer one is refused, and nobody hears of it.
const noteLimit = 1024

// EventRecorder returns a recorder of the manager's that cuts notes to what an API server takes. Refusals of admission are often longer.
func EventRecorder(mgr ctrl.Manager, name string) events.EventRecorder {
	return recorder{mgr.GetEventRecorder(name)}
}

type recorder struct{ events.EventRecorder }

// Eventf is part of events.EventRecorder.
func (r recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, related, eventtype, reason, action, "%s", cut(fmt.Sprintf(note, args...)))
}

// cut shortens a note that is too long, between two characters.
func cut(note string) string {
	const more = "..."
	if len(note) <= noteLimit {
		return note
	}
	return strings.ToValidUTF8(note[:noteLimit-len(more)], "") + more
}
