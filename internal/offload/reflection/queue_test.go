package reflection

import (
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// taken pops all objects in order, and returns their names.
func taken(q queue) (names []string) {
	for q.Len() > 0 {
		key, _ := q.Get()
		names = append(names, key.Name)
		q.Done(key)
	}
	return names
}

func TestProviderEventsHavePriority(t *testing.T) {
	rest := func(name string) func(queue) { return func(q queue) { q.Add(types.NamespacedName{Name: name}) } }
	told := func(name string) func(queue) {
		return func(q queue) { q.addRemoteTriggered(types.NamespacedName{Name: name}) }
	}
	for what, row := range map[string]struct {
		adds []func(queue)
		want []string
	}{
		"nothing else":            {[]func(queue){rest("a"), rest("b"), rest("c")}, []string{"a", "b", "c"}},
		"what was told is first":  {[]func(queue){rest("a"), rest("b"), rest("c"), told("x"), told("y"), told("z")}, []string{"x", "y", "z", "a", "b", "c"}},
		"one that waited":         {[]func(queue){rest("a"), rest("b"), rest("c"), rest("d"), told("d")}, []string{"d", "a", "b", "c"}},
		"one that is in front":    {[]func(queue){told("a"), rest("b"), rest("a")}, []string{"a", "b"}},
		"twice is once":           {[]func(queue){rest("a"), told("b"), told("b"), rest("a"), told("a")}, []string{"b", "a"}},
		"told of nothing but one": {[]func(queue){told("x")}, []string{"x"}},
	} {
		t.Run(what, func(t *testing.T) {
			q := newQueue(clock.RealClock{})
			defer q.ShutDown()
			for _, add := range row.adds {
				add(q)
			}
			if got := taken(q); !slices.Equal(got, row.want) {
				t.Errorf("got %v, want %v", got, row.want)
			}
			if rest := taken(q); len(rest) > 0 || len(q.priorities.remoteTriggered) > 0 || len(q.priorities.priority) > 0 {
				t.Errorf("left are %v, %v, %v", rest, q.priorities.remoteTriggered, q.priorities.priority)
			}
		})
	}
}

// TestQueuePrioritiesAlternate: while both queues have many entries, neither waits for more than a turn of the other.
func TestQueuePrioritiesAlternate(t *testing.T) {
	q := newQueue(clock.RealClock{})
	defer q.ShutDown()
	for i := range 3 * turn {
		q.Add(types.NamespacedName{Name: "rest" + strconv.Itoa(i)})
		q.addRemoteTriggered(types.NamespacedName{Name: "told" + strconv.Itoa(i)})
	}
	var turns []string
	lengths := map[string]int{}
	for _, name := range taken(q) {
		lane := name[:4]
		if len(turns) == 0 || turns[len(turns)-1] != lane {
			turns = append(turns, lane)
		}
		lengths[lane]++
	}
	if want := []string{"told", "rest", "told", "rest", "told", "rest"}; !slices.Equal(turns, want) || lengths["told"] != lengths["rest"] {
		t.Errorf("got turns %v of %v objects, want %v of %d", turns, lengths, want, turn)
	}
}

func TestEventDuringReconcileRequeues(t *testing.T) {
	q := newQueue(clock.RealClock{})
	defer q.ShutDown()
	for i := range 5 {
		q.Add(types.NamespacedName{Name: strconv.Itoa(i)})
	}
	key, _ := q.Get()
	q.addRemoteTriggered(key) // while it is being reconciled
	q.Done(key)
	if got, want := taken(q), []string{"1", "2", "3", "4", "0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFirstSeenTimes(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	began := now
	s := newStore(Resource{}, func(types.NamespacedName, client.Object, client.Object) {}, func() {})
	s.now = func() time.Time { return now }
	pod := func(uid, version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: types.UID(uid), ResourceVersion: version}}
	}
	for i, step := range []struct {
		what string
		do   func() error
		want time.Duration
	}{
		{"nothing is known", func() error { return nil }, -1},
		{"a write of ours", func() error { s.wrote(pod("a", "1")); return nil }, time.Second},
		{"the watch tells of it", func() error { return s.Update(pod("a", "2")) }, time.Second},
		{"a list tells of it", func() error { return s.Replace([]any{pod("a", "2")}, "3") }, time.Second},
		{"another one of its name", func() error { return s.Update(pod("b", "4")) }, 4 * time.Second},
		{"it is gone", func() error { return s.Delete(pod("b", "5")) }, -1},
		{"it is there again", func() error { return s.Update(pod("c", "6")) }, 6 * time.Second},
		{"a list does not tell of it", func() error { return s.Replace(nil, "7") }, -1},
	} {
		now = began.Add(time.Duration(i) * time.Second)
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		want := time.Time{}
		if step.want >= 0 {
			want = began.Add(step.want)
		}
		if got := s.arrivedAt(types.NamespacedName{Name: "web"}); !got.Equal(want) {
			t.Errorf("%s: got %v, want %v", step.what, got, want)
		}
	}
}
