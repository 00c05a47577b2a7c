package kube

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Limits of the writes that another cluster causes to one object of this cluster. Objects change a few times when they start or end, and seldom
// otherwise.
const (
	// PaceBurst is the number of writes to an object that are not delayed.
	PaceBurst = 20
	// PaceInterval is the time until one more write to the object is allowed.
	PaceInterval = time.Second
)

// Pace limits the writes of each object to PaceBurst at once and one per PaceInterval. After a delay, the caller writes the latest state of the
// object, so that only intermediate states are lost. The zero value is ready for use.
type Pace struct {
	mu sync.Mutex
	// full is the time at which an object may again be written PaceBurst times.
	full map[types.NamespacedName]time.Time
	// swept is the time when Take last removed records that are no longer needed.
	swept time.Time
}

// Take counts one write of an object and returns 0. If the object must not be written now, Take returns the time until it may be.
func (p *Pace) Take(key types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	full := p.full[key]
	if full.Before(now) {
		full = now
	}
	if rest := full.Sub(now) - (PaceBurst-1)*PaceInterval; rest > 0 {
		return rest
	}
	if p.full == nil {
		p.full = map[types.NamespacedName]time.Time{}
	}
	// An object that may again be written PaceBurst times needs no record. Without this sweep, records would accumulate where Forget is never called.
	if now.Sub(p.swept) >= PaceBurst*PaceInterval {
		p.swept = now
		maps.DeleteFunc(p.full, func(_ types.NamespacedName, full time.Time) bool { return !full.After(now) })
	}
	p.full[key] = full.Add(PaceInterval)
	return 0
}

// Forget drops the record of an object. Call it when the object is deleted.
func (p *Pace) Forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.full, key)
}
