package kube

import (
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestPace: whatever the rate of the changes, an object is written PaceBurst times at once and then once per PaceInterval. Other objects do not wait
// for it.
func TestPace(t *testing.T) {
	busy, calm := types.NamespacedName{Name: "busy"}, types.NamespacedName{Name: "calm"}
	var p Pace
	start := time.Unix(1_700_000_000, 0)
	const seconds, rate = 60, 100
	written := 0
	for i := range seconds * rate {
		now := start.Add(time.Duration(i) * time.Second / rate)
		rest := p.Take(busy, now)
		if rest == 0 {
			written++
			continue
		}
		if rest > PaceInterval {
			t.Fatalf("the object waits %v, want at most %v", rest, PaceInterval)
		}
		if again := p.Take(busy, now); again != rest {
			t.Fatalf("waiting costs writes: %v, then %v", rest, again)
		}
	}
	if want := PaceBurst + seconds*int(time.Second/PaceInterval); written < want-1 || written > want {
		t.Errorf("%d writes in %d s, want %d", written, seconds, want)
	}
	if rest := p.Take(calm, start.Add(seconds*time.Second)); rest != 0 {
		t.Errorf("an object that did not change waits %v", rest)
	}
	if p.Forget(busy); p.Take(busy, start.Add(seconds*time.Second)) != 0 {
		t.Error("a recreated object waits for its predecessor")
	}
	// After a pause, PaceBurst writes are possible at once again.
	later := start.Add(time.Hour)
	for i := range PaceBurst {
		if rest := p.Take(busy, later); rest != 0 {
			t.Fatalf("write %d waits %v", i+1, rest)
		}
	}
}

// TestPaceForgetsIdleObjects: records of objects that are no longer written are removed even without a call of Forget, so that they do not fill the memory.
func TestPaceForgetsIdleObjects(t *testing.T) {
	var p Pace
	start := time.Unix(1_700_000_000, 0)
	const objects, each = 10_000, 10 * time.Millisecond
	most := 0
	for i := range objects {
		p.Take(types.NamespacedName{Name: strconv.Itoa(i)}, start.Add(time.Duration(i)*each))
		most = max(most, len(p.full))
	}
	if limit := int((PaceBurst+1)*PaceInterval/each) + 1; most > limit {
		t.Errorf("%d records, want at most %d", most, limit)
	}
	busy := types.NamespacedName{Name: "busy"}
	end := start.Add(time.Hour)
	for range PaceBurst {
		p.Take(busy, end)
	}
	p.swept = time.Time{}
	if p.Take(types.NamespacedName{Name: "other"}, end.Add(time.Millisecond)); p.Take(busy, end.Add(time.Millisecond)) == 0 {
		t.Error("a busy object was forgotten")
	}
}
