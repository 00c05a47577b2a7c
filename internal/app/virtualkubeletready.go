package app

import (
	"errors"
	"sync/atomic"
)

// readiness reports whether a virtual kubelet is ready, so that a rollout may end its predecessor. A replica on standby is ready, because a rollout
// would otherwise wait for it forever. The active replica is ready when all of its checks succeed.
type readiness struct {
	// standby is true once the replica knows the leader.
	standby atomic.Bool
	// checks are the readiness checks of the active replica, empty while it starts; nil on standby.
	checks atomic.Pointer[[]func() error]
}

// standBy records that this replica knows the leader. It has no effect on an active replica.
func (r *readiness) standBy() { r.standby.Store(true) }

// activate records that this replica is active, and the checks that decide whether it is ready. Without checks it is not ready.
func (r *readiness) activate(checks ...func() error) { r.checks.Store(&checks) }

// ready returns nil if this replica is ready, else an error that says everything that is missing.
func (r *readiness) ready() error {
	checks := r.checks.Load()
	switch {
	case checks == nil && r.standby.Load():
		return nil
	case checks == nil:
		return errors.New("waiting for the Lease of the election to be read")
	case len(*checks) == 0:
		return errors.New("the virtual kubelet is starting")
	}
	var missing []error
	for _, check := range *checks {
		missing = append(missing, check())
	}
	return errors.Join(missing...)
}
