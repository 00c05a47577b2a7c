package kube

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
)

// notes records the notes of Events.
type notes struct {
	events.EventRecorder
	all []string
}

func (n *notes) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	n.all = append(n.all, fmt.Sprintf(note, args...))
}

func TestNotesFitTheLimitOfTheAPIServer(t *testing.T) {
	taken := &notes{}
	for _, refusal := range []string{"short, 100 % of it", strings.Repeat("ä", noteLimit)} {
		recorder{EventRecorder: taken}.Eventf(nil, nil, "", "", "", "changing the pod: %s", refusal)
	}
	if taken.all[0] != "changing the pod: short, 100 % of it" {
		t.Errorf("%q", taken.all[0])
	}
	if long := taken.all[1]; len(long) > noteLimit || len(long) < noteLimit-5 || !utf8.ValidString(long) || !strings.HasSuffix(long, "ä...") {
		t.Errorf("%d bytes: %q", len(long), long)
	}
}

// recording returns our recorder with the broadcaster of client-go, and the API server that it writes to.
func recording(t *testing.T) (events.EventRecorder, *fake.Clientset) {
	t.Helper()
	server := fake.NewSimpleClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: server.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return recorder{broadcaster.NewRecorder(scheme.Scheme, "liqo"), scheme.Scheme}, server
}

// recorded waits until namespace shop has that number of Events. The test must wait, because the fake API server loses an update of an Event that does not
// exist yet.
func recorded(t *testing.T, server *fake.Clientset, want int) {
	t.Helper()
	found := 0
	for range 200 {
		list, err := server.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if found = len(list.Items); found == want {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("there are %d Events, want %d", found, want)
}

// seriesIs waits until the Events of namespace shop that count as a series have these notes.
func seriesIs(t *testing.T, server *fake.Clientset, want ...string) []eventsv1.Event {
	t.Helper()
	var got []string
	for range 200 {
		list, err := server.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for i := range list.Items {
			if list.Items[i].Series != nil {
				got = append(got, list.Items[i].Note)
			}
		}
		if slices.Sort(got); slices.Equal(got, want) {
			return list.Items
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("the series of Events are about %q, want %q", got, want)
	return nil
}

// TestEachNoteIsAnEvent: client-go merges Events that differ only in their note into one series with the first note. Our recorder emits an Event for each note,
// and a series only for a repeated note.
func TestEachNoteIsAnEvent(t *testing.T) {
	r, server := recording(t)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "u1", ResourceVersion: "7"}}
	want := []string{"no default class", "no quota"}
	for range 2 {
		for _, note := range want {
			r.Eventf(claim, nil, corev1.EventTypeWarning, "ProvisioningFailed", "Provision", "%s", note)
			time.Sleep(2 * time.Millisecond) // the name of an Event contains its time, and the fake API server would treat an equal name as a retry
		}
		recorded(t, server, len(want))
	}
	seriesIs(t, server, want...)
}

// TestChangesOfAnObjectMakeNoEvents: changes of an object and its related object in a loop result in one series of Events. A recreated object gets
// its own series.
func TestChangesOfAnObjectMakeNoEvents(t *testing.T) {
	r, server := recording(t)
	for i, uid := range []types.UID{"u1", "u2"} {
		for version := range 50 {
			if version == 1 {
				recorded(t, server, i+1)
			}
			meta := metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: uid, ResourceVersion: strconv.Itoa(version + 1)}
			r.Eventf(&corev1.PersistentVolumeClaim{ObjectMeta: meta}, &corev1.Pod{ObjectMeta: meta}, corev1.EventTypeWarning, "ProvisioningFailed", "Provision", "no quota")
			time.Sleep(2 * time.Millisecond)
		}
	}
	made := seriesIs(t, server, "no quota", "no quota")
	if len(made) != 2 {
		t.Errorf("there are %d Events, want one for each object", len(made))
	}
	for i := range made {
		want := corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data", UID: made[i].Regarding.UID}
		related := want
		related.Kind = "Pod"
		if made[i].Regarding != want || made[i].Regarding.UID == "" || made[i].Related == nil || *made[i].Related != related {
			t.Errorf("an Event is about %+v and %+v, want %+v and the Pod", made[i].Regarding, made[i].Related, want)
		}
	}
}
