package app

import (
	"errors"
	"sync/atomic"
)

// readiness tells whether a virtual kubelet is ready: a rollout may end its predecessor then. A replica on standby is ready, or a rollout would wait for it
// forever. The active one is ready when all of its checks succeed.
type readiness struct {
	// standby is true once the replica knows the leader.
	standby atomic.Bool
	// checks are those of the active replica, empty while it starts; nil on standby.
	checks atomic.Pointer[[]func() error]
}

// standBy records that this replica knows the leader. It has no effect on an active one.
func (r *readiness) standBy() { r.standby.Store(true) }

// activate records that this replica is active, and what it takes to be ready. Without checks it is not ready.
func (r *readiness) activate(checks ...func() error) { r.checks.Store(&checks) }

// ready returns nil if this replica is ready, else an error that says everything that is missing.
func (r *readiness) ready() error {
	checks := r.checks.Load()
	switch {
	case checks == nil && r.standby.Load():
		return nil
	case checks == nil:
		return errors.New("the Lease of the election was not read yet")
	case len(*checks) == 0:
		return errors.New("the virtual kubelet is starting")
	}
	var missing []error
	for _, check := range *checks {
		missing = append(missing, check())
	}
	return errors.Join(missing...)
}
