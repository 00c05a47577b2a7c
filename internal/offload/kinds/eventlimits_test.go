package kinds

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestEventsOfProvidersAreBounded: whatever a provider writes into an Event, the copy is small and has no control characters.
func TestEventsOfProvidersAreBounded(t *testing.T) {
	const bad = "\x1b]0;x\x07\u202e"
	long := strings.Repeat("x", 1<<20) + bad
	remote := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "web.1"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "web", FieldPath: long, APIVersion: long},
		Type: bad + long, Reason: long, Message: bad + long, Action: long, ReportingController: long, ReportingInstance: long,
		Source: corev1.EventSource{Component: bad + long, Host: long}, Related: &corev1.ObjectReference{
			Kind: long, Namespace: long, Name: long, UID: types.UID(long), APIVersion: long, ResourceVersion: long, FieldPath: long,
		},
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	got, why := Event(remote, pod, pod, CopyOptions{Origin: "rome", Destination: "milan"})
	if got == nil {
		t.Fatal(why)
	}
	data, err := got.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 8<<10 || strings.ContainsAny(string(data), "\x1b\u202e") {
		t.Errorf("the copy has %d bytes: %.2000q", len(data), data)
	}
	if len(got.Message) != MaxMessage || !strings.HasSuffix(got.Source.Component, RemoteSource) {
		t.Errorf("message of %d bytes, component %q", len(got.Message), got.Source.Component)
	}
	if again, change := MergeEvent(got, got.DeepCopy()); change != Same {
		t.Errorf("the copy is written again: %+v", again)
	}
}
