package kube

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Bounds of the writes that another cluster causes on one object of this cluster. Objects change a few times when they start or end, and seldom otherwise.
const (
	// PaceBurst is the number of writes of an object without a delay.
	PaceBurst = 20
	// PaceInterval is the time after which an object may be written once more.
	PaceInterval = time.Second
)

// Pace limits the writes of each object to PaceBurst at once and one per PaceInterval. Its user writes the latest state of an object that had to wait, so
// that no state is lost but the ones in between. The zero value is ready for use.
type Pace struct {
	mu sync.Mutex
	// full is the time at which an object has its whole burst again.
	full map[types.NamespacedName]time.Time
}

// Take takes one write of an object and returns 0. If there is none left, Take returns the time until there is.
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
	p.full[key] = full.Add(PaceInterval)
	return 0
}

// Forget drops the record of an object. Call it when the object is gone.
func (p *Pace) Forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.full, key)
}
