package kube

import (
	"fmt"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/excerpt"
)

// noteLimit is the maximum length in bytes of the note of an Event in API events.k8s.io/v1. The API server rejects longer notes, and the Event is
// lost.
const noteLimit = 1024

// EventRecorder returns the manager's event recorder with four changes. It removes control characters from notes. It truncates them to noteLimit,
// because admission errors are often longer. It emits an Event for each different note, which client-go would otherwise merge into one. And it emits
// no further Events only because the object has changed.
func EventRecorder(mgr ctrl.Manager, name string) events.EventRecorder {
	return recorder{mgr.GetEventRecorder(name), mgr.GetScheme()}
}

type recorder struct {
	events.EventRecorder
	scheme *runtime.Scheme
}

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	note = excerpt.Of(fmt.Sprintf(note, args...), noteLimit)
	r.EventRecorder.Eventf(r.reference(regarding), r.reference(related), eventtype, reason, distinct(action, note), "%s", note)
}

// reference returns a reference to an object without its resource version. client-go starts another series of Events for each version, so a user who
// changes an object in a loop could fill the API server with Events. The reference keeps the UID, because Events about a deleted object do not
// concern a later object with its name, and kubectl describe selects Events by UID.
func (r recorder) reference(obj runtime.Object) runtime.Object {
	if obj == nil {
		return nil
	}
	ref, err := reference.GetReference(r.scheme, obj)
	if err != nil {
		return obj // client-go logs the error
	}
	ref = ref.DeepCopy()
	ref.ResourceVersion = ""
	return ref
}

// distinct appends a hash of the note, one of 256 suffixes, to the action. client-go merges Events that differ only in their note and drops the later
// notes for 6 minutes, so users would read an outdated message. The number of suffixes limits the Events of one object, even if its creator chooses a
// part of the note.
func distinct(action, note string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(note)) // never fails
	return fmt.Sprintf("%s-%02x", action, byte(sum.Sum32()))
}
