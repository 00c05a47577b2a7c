// Package trigger wakes a goroutine that waits for changes, however many there were.
package trigger

// Trigger holds at most one signal. A goroutine waits for the signal by receiving from it.
type Trigger chan struct{}

// New returns a Trigger without a signal.
func New() Trigger { return make(Trigger, 1) }

// Fire gives the Trigger a signal, unless it has one. It never blocks.
func (t Trigger) Fire() {
	select {
	case t <- struct{}{}:
	default:
	}
}
