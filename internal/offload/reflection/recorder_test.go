package reflection

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/reasons"
)

// TestEventsDoNotDelayWorkers: a worker that emits an Event never waits, and a burst of Events does not cause a burst of writes.
func TestEventsDoNotDelayWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
		e := NewRecorder(c, slog.New(slog.DiscardHandler), "milan", "milan")
		for range 3 * announcementsWaiting {
			e.Announce(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
		}
		go func() { _ = e.Run(t.Context()) }()
		told := func() int {
			synctest.Wait()
			var list corev1.EventList
			if err := c.List(t.Context(), &list); err != nil {
				t.Fatal(err)
			}
			return len(list.Items)
		}
		if n := told(); n != 1 {
			t.Errorf("%d announcements were told at once, want 1", n)
		}
		time.Sleep(announcementPause)
		if n := told(); n != 2 {
			t.Errorf("%d announcements were told after a pause, want 2", n)
		}
		time.Sleep(2 * announcementsWaiting * announcementPause)
		if n := told(); n != announcementsWaiting {
			t.Errorf("%d announcements were told, want the %d that there is room for", n, announcementsWaiting)
		}
	})
}

// TestEventsAboutTheNode: an API server refuses an Event about a Node outside namespace default.
func TestEventsAboutTheNode(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
	e := NewRecorder(c, slog.New(slog.DiscardHandler), "milan", "milan")
	e.Record(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", UID: "1"}}, corev1.EventTypeWarning, reasons.NodesInterrupted, "gpu-1 ends")
	var list corev1.EventList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("%d Events, want 1", len(list.Items))
	}
	got := list.Items[0]
	want := corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "milan", UID: "1"}
	if got.Namespace != "default" || got.InvolvedObject != want || got.Source.Component != "liqo-virtual-kubelet" || got.Message != "gpu-1 ends" {
		t.Errorf("%+v", got)
	}
}

// TestMessagesOfEventsAreBounded: a message may quote what a provider answered.
func TestMessagesOfEventsAreBounded(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
	NewRecorder(c, slog.New(slog.DiscardHandler), "milan", "milan").Warn(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
		"the provider refuses it: \x1b[2J"+strings.Repeat("x", 1<<20))
	var list corev1.EventList
	if err := c.List(t.Context(), &list); err != nil || len(list.Items) != 1 {
		t.Fatalf("%d Events, %v", len(list.Items), err)
	}
	if got := list.Items[0].Message; len(got) != kinds.MaxMessage || strings.Contains(got, "\x1b") {
		t.Errorf("%d bytes: %.100q", len(got), got)
	}
}
