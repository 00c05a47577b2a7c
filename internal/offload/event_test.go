package offload

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
)

// TestEventLawsInRandomWorlds: whatever happens to an Event of the provider, its copy and its pod, the engine settles. The copy then equals the Event and
// refers to the current pod. Nothing is written twice, and foreign Events stay.
func TestEventLawsInRandomWorlds(t *testing.T) {
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 3))
		at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		uids := 0
		uid := func() types.UID { uids++; return types.UID(fmt.Sprint("u", uids)) }
		f := EventFacts{Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, Synced: true}
		var history []string
		fatal := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d: %s\nhistory: %q", seed, fmt.Sprintf(format, args...), history)
		}
		next := func() Step {
			before := []any{f.Local.DeepCopy(), f.Remote.DeepCopy()}
			step := NextEvent(f, copyOptions)
			if !equality.Semantic.DeepEqual(before, []any{f.Local, f.Remote}) {
				fatal("a decision changed what it was about: %s", step.Why)
			}
			if again := NextEvent(f, copyOptions); !equality.Semantic.DeepEqual(step, again) {
				fatal("the same facts, another step: %v, %v", step, again)
			}
			return step
		}
		foreign := func() bool { return f.Local != nil && !kinds.OwnsEvent(f.Local, copyOptions) }
		obey := func(step Step) {
			if step.Action == Nothing {
				return
			}
			history = append(history, step.Action.String()+": "+step.Why)
			if foreign() {
				fatal("a foreign event was touched")
			}
			switch step.Action {
			case CreateLocal:
				if f.Local != nil {
					fatal("made over another")
				}
				f.Local = step.Object.(*corev1.Event)
				f.Local.UID = uid()
			case PatchLocal:
				if equality.Semantic.DeepEqual(f.Local, step.Object) || step.Object.GetUID() != f.Local.UID {
					fatal("a write that changes nothing, or another one")
				}
				f.Local = step.Object.(*corev1.Event)
			case DeleteLocal:
				f.Local = nil
			default:
				fatal("no business of an event: %s", step.Action)
			}
		}
		for range 30 {
			at = metav1.NewTime(at.Add(time.Second))
			switch r.IntN(7) {
			case 0: // the pod is created or deleted
				f.About, f.RemoteObject = nil, nil
				if r.IntN(3) > 0 {
					pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid()}}
					f.About = pod
					f.RemoteObject = &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at, Annotations: map[string]string{kinds.AnnotationLocalUID: string(pod.UID)}}}
				}
			case 1, 2:
				f.Remote = &corev1.Event{
					ObjectMeta:     metav1.ObjectMeta{Namespace: "shop-rome", Name: "web.1", CreationTimestamp: at},
					InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "web"}, Count: 1,
				}
			case 3:
				if f.Remote != nil {
					f.Remote = f.Remote.DeepCopy()
					f.Remote.Count++
				}
			case 4:
				f.Remote = nil
			case 5:
				if f.Local == nil && r.IntN(2) == 0 {
					f.Local = &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web.1", UID: uid()}}
				} else {
					f.Local = nil
				}
			default:
				f.Synced = !f.Synced
			}
			for range r.IntN(3) {
				obey(next())
			}
		}
		f.Synced = true
		if foreign() {
			obey(next())
			f.Local = nil
		}
		for range 3 {
			obey(next())
		}
		if step := next(); step.Action != Nothing {
			fatal("it does not settle: %s", step.Why)
		}
		switch {
		case f.Remote == nil && f.Local != nil:
			fatal("a copy of nothing is left")
		case f.Remote != nil && f.About != nil && !f.Remote.CreationTimestamp.Before(new(f.RemoteObject.GetCreationTimestamp())):
			if f.Local == nil || f.Local.Count != f.Remote.Count {
				fatal("the copy is not right: %v", f.Local)
			}
		}
	}
}

// TestWhichVirtualKubeletReflectsEvents: each virtual kubelet reflects Events about its own pods, and one of them the others.
func TestWhichVirtualKubeletReflectsEvents(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	event := func(kind string) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "web.1", CreationTimestamp: at}, InvolvedObject: corev1.ObjectReference{Kind: kind, Name: "web"}}
	}
	shadow := &offloadingv1beta1.ShadowPod{}
	mapped := Mapping{State: Mapped, Namespace: "shop-rome"}
	owned, _ := kinds.Event(event("Service"), &corev1.Service{}, &corev1.Service{}, copyOptions)
	waits := copyOptions
	waits.Waiting = "another one does it"
	for name, row := range map[string]struct {
		facts         EventFacts
		first, others Action
	}{
		"of its pod":              {EventFacts{Remote: event("Pod"), About: &corev1.Pod{}, RemoteObject: shadow}, CreateLocal, CreateLocal},
		"of another's pod":        {EventFacts{Remote: event("Pod"), RemoteObject: shadow}, Nothing, Nothing},
		"of a Service":            {EventFacts{Remote: event("Service"), About: &corev1.Service{}, RemoteObject: &corev1.Service{}}, CreateLocal, Nothing},
		"one that is gone":        {EventFacts{Local: owned}, DeleteLocal, Nothing},
		"without a remote object": {EventFacts{Remote: event("Service"), About: &corev1.Service{}}, Nothing, Nothing},
	} {
		row.facts.Mapping, row.facts.Synced = mapped, true
		if a, b := NextEvent(row.facts, copyOptions), NextEvent(row.facts, waits); a.Action != row.first || b.Action != row.others {
			t.Errorf("%s: %s (%s), %s (%s)", name, a.Action, a.Why, b.Action, b.Why)
		}
		row.facts.Mapping.State = Unmapped
		if step := NextEvent(row.facts, copyOptions); step.Action != Nothing {
			t.Errorf("%s, without a remote namespace: %s", name, step.Action)
		}
		row.facts.Mapping, row.facts.Synced = mapped, false
		if step := NextEvent(row.facts, copyOptions); step.Action != Nothing {
			t.Errorf("%s, while the provider does not answer: %s", name, step.Action)
		}
	}
}

// TestEventsOfAClockAhead: no timestamp of a copied Event is in the future, whatever the provider's clock says, and the clock alone causes no write.
func TestEventsOfAClockAhead(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	remote := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "web.1"}, InvolvedObject: corev1.ObjectReference{Kind: "Service", Name: "web"}, Count: 1,
		FirstTimestamp: metav1.NewTime(now.Add(10 * time.Minute)), LastTimestamp: metav1.NewTime(now.Add(10 * time.Minute)),
		EventTime: metav1.NewMicroTime(now.Add(10 * time.Minute)), Series: &corev1.EventSeries{Count: 1, LastObservedTime: metav1.NewMicroTime(now.Add(10 * time.Minute))},
	}
	f := EventFacts{
		Remote: remote, About: &corev1.Service{}, RemoteObject: &corev1.Service{}, Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, Synced: true,
	}
	o := copyOptions
	seen := func(want Action, at time.Time) {
		t.Helper()
		o.Now = at
		step := NextEvent(f, o)
		if step.Action != want {
			t.Fatalf("%s: %s, want %s", at, step.Action, want)
		}
		if want != Nothing {
			f.Local = step.Object.(*corev1.Event)
		}
	}
	times := func(first, last time.Time) {
		t.Helper()
		e := f.Local
		first, last = first.Truncate(time.Second), last.Truncate(time.Second)
		if !e.FirstTimestamp.Time.Equal(first) || !e.LastTimestamp.Time.Equal(last) || !e.EventTime.Time.Equal(first) || !e.Series.LastObservedTime.Time.Equal(last) {
			t.Errorf("first %s, last %s, time %s, series %s: want %s and %s", e.FirstTimestamp, e.LastTimestamp, e.EventTime, e.Series.LastObservedTime, first, last)
		}
	}
	seen(CreateLocal, now)
	times(now, now)
	seen(Nothing, now.Add(time.Minute))
	later := now.Add(2 * time.Minute)
	f.Remote = remote.DeepCopy()
	f.Remote.Count, f.Remote.Series.Count = 2, 2
	f.Remote.LastTimestamp, f.Remote.Series.LastObservedTime = metav1.NewTime(later.Add(10*time.Minute)), metav1.NewMicroTime(later.Add(10*time.Minute))
	seen(PatchLocal, later)
	times(now, later)
	seen(Nothing, later.Add(time.Minute))
	// Timestamps that are not in the future stay unchanged.
	f.Local, f.Remote = nil, remote
	o.Now = now.Add(time.Hour)
	if made := NextEvent(f, o).Object.(*corev1.Event); !made.LastTimestamp.Equal(&remote.LastTimestamp) || !made.EventTime.Equal(&remote.EventTime) {
		t.Errorf("past times: %s, %s", made.LastTimestamp, made.EventTime)
	}
}
