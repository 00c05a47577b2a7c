package kube

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
)

// noteLimit is the maximum length of the note of an Event, in bytes (API events.k8s.io/v1). The API server rejects a longer one,
// and the event is lost.
const noteLimit = 1024

// EventRecorder returns an event recorder of the manager that truncates notes to the limit of the API server. Admission errors
// are often longer than that.
func EventRecorder(mgr ctrl.Manager, name string) events.EventRecorder {
	return recorder{mgr.GetEventRecorder(name)}
}

type recorder struct{ events.EventRecorder }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, related, eventtype, reason, action, "%s", cut(fmt.Sprintf(note, args...)))
}

// cut shortens a note that is too long, without splitting a character.
func cut(note string) string {
	const more = "..."
	if len(note) <= noteLimit {
		return note
	}
	return strings.ToValidUTF8(note[:noteLimit-len(more)], "") + more
}
