// Package agent keeps a network namespace in its wanted state. Whenever the wanted or the actual state may have changed, it compares both
// and applies the difference. It needs no state of its own: after a restart at any moment, it continues from the actual state.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/trigger"
)

const (
	// DefaultRefresh is the interval at which the agent reads the namespace even if nothing reported a change.
	DefaultRefresh = 30 * time.Second
	// pause is the minimum time between two passes, so that a burst of changes leads to few passes.
	pause = 50 * time.Millisecond
	// retryFirst and retryLast are the first and the longest delay before a failed pass is retried. The delay doubles with each failure.
	retryFirst, retryLast = 100 * time.Millisecond, 5 * time.Second
	// readBackoffFactor and longestReadDelay delay the next read while the namespace is in the wanted state: by readBackoffFactor times the duration
	// of the last read, but at most longestReadDelay. With thousands of routes a read takes tens of milliseconds, and each of the agent's own changes
	// triggers a read.
	readBackoffFactor, longestReadDelay = 30, 2 * time.Second
	// listed is the maximum number of changes that one log line lists.
	listed = 16
)

// ErrUnknown is the error that Options.Want returns until it has received all its inputs.
var ErrUnknown = errors.New("some objects have not been read yet")

// Options configure an Agent.
type Options struct {
	Kernel dataplane.Kernel
	Own    dataplane.Ownership
	// Want returns the wanted states: the agent applies them in order and keeps the last one. Usually there is only one; if there is
	// none, the agent does nothing. While Want fails, with ErrUnknown or any other error, the agent changes nothing.
	Want func(context.Context) ([]dataplane.State, error)
	// Settled is called after each pass that leaves the namespace in the wanted state, also if nothing had to change. May be nil.
	Settled func()
	// Refresh is the longest time between two reads; zero: DefaultRefresh. Clock is the time source; nil: the real clock.
	Refresh time.Duration
	Clock   clock.Clock
	Log     *slog.Logger
	// Metrics record passes and changes; nil records nothing.
	Metrics *Metrics
}

// Agent keeps one network namespace in its wanted state. Create it with New.
type Agent struct {
	opts   Options
	news   trigger.Trigger // signals that the wanted state may have changed
	resync trigger.Trigger // signals that the actual state may have changed

	settled     *dataplane.State // wanted state when the namespace last matched it; nil: the namespace may differ
	reached     *dataplane.State // last wanted state that the namespace reached, if it is still the wanted one; nil: none
	lastRead    time.Time        // start of the last read of the namespace
	took        time.Duration    // duration of the last read
	lastFailure string           // last failure that was logged
	journal     journal
}

// New returns an Agent, which does nothing until Run or Pass is called.
func New(opts Options) *Agent {
	if opts.Refresh == 0 {
		opts.Refresh = DefaultRefresh
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	return &Agent{opts: opts, news: trigger.New(), resync: trigger.New(), journal: journal{log: opts.Log}}
}

// Facts reports that the wanted state may have changed. It never blocks.
func (a *Agent) Facts() { a.news.Fire() }

// Resync reports that the actual state of the namespace may have changed. It never blocks.
func (a *Agent) Resync() { a.resync.Fire() }

// Run keeps the namespace in its wanted state until ctx is done. It then leaves the namespace as it is.
func (a *Agent) Run(ctx context.Context) error {
	retry := retryFirst
	for {
		// Frequent calls of Facts must not postpone the next periodic read.
		wait := a.opts.Refresh
		if err := a.Pass(ctx); ctx.Err() == nil && err != nil && !errors.Is(err, ErrUnknown) {
			wait, retry = retry, min(2*retry, retryLast)
		} else {
			retry = retryFirst
			if a.settled != nil {
				wait -= a.opts.Clock.Since(a.lastRead)
			}
		}
		if !a.wait(ctx, wait) {
			return nil
		}
		if a.opts.Clock.Since(a.lastRead) >= a.opts.Refresh {
			a.settled = nil
		}
	}
}

// wait returns after a call of Facts, after a call of Resync once a read is due, or after d; never before pause. It returns false if ctx is
// done.
func (a *Agent) wait(ctx context.Context, d time.Duration) bool {
	if !sleep(ctx, a.opts.Clock, pause) {
		return false
	}
	end, rested := a.opts.Clock.NewTimer(d-pause), a.opts.Clock.NewTimer(a.readDelay())
	defer end.Stop()
	defer rested.Stop()
	var resync trigger.Trigger // nil until a read is due
	for {
		select {
		case <-ctx.Done():
			return false
		case <-rested.C():
			resync = a.resync
			continue
		case <-resync:
			a.settled = nil
			return true
		case <-a.news:
		case <-end.C():
		}
		break
	}
	if a.readDelay() <= 0 { // frequent calls of Facts must not postpone a read that Resync requested
		select {
		case <-a.resync:
			a.settled = nil
		default:
		}
	}
	return true
}

// readDelay returns how long the reads that Resync requests are still delayed; zero or less: a read is due.
func (a *Agent) readDelay() time.Duration {
	if a.settled == nil {
		return 0
	}
	return min(readBackoffFactor*a.took, longestReadDelay) - a.opts.Clock.Since(a.lastRead)
}

func sleep(ctx context.Context, clock clock.Clock, d time.Duration) bool {
	timer := clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// Pass brings the namespace to its wanted state once. It does not read the namespace if three conditions hold: the last pass left it in the
// wanted state, Run observed no change since, and the wanted links, addresses and WireGuard devices are the same (see sameLinks). Must not
// be called while Run runs.
func (a *Agent) Pass(ctx context.Context) error {
	want, err := a.opts.Want(ctx)
	if err != nil {
		if !errors.Is(err, ErrUnknown) {
			a.logFailure(fmt.Errorf("computing the wanted network state: %w", err))
		}
		return err
	}
	if len(want) == 0 {
		return nil
	}
	if len(want) == 1 && a.settled != nil && reflect.DeepEqual(*a.settled, want[0]) {
		a.done()
		return nil
	}
	if a.reached != nil && (len(want) > 1 || !reflect.DeepEqual(*a.reached, want[0])) {
		a.reached = nil
	}
	began, settled := a.opts.Clock.Now(), a.settled
	a.settled = nil
	for _, state := range want {
		changes, err := a.change(ctx, settled, state)
		settled = nil
		a.journal.record(changes, a.opts.Clock.Now())
		if err != nil {
			if ctx.Err() == nil {
				a.logFailure(err)
			}
			return err
		}
	}
	if a.lastFailure != "" {
		a.opts.Log.Info("Recovered from the last failure", "failure", a.lastFailure)
		a.lastFailure = ""
	}
	a.settled = &want[len(want)-1]
	a.reached = a.settled
	a.opts.Metrics.passed(a.opts.Clock.Since(began))
	a.done()
	return nil
}

func (a *Agent) done() {
	if a.opts.Settled != nil {
		a.opts.Settled()
	}
}

// change applies the difference between the namespace and want, and returns the applied changes, or none if reading or applying fails.
// settled is the known content of the namespace; nil: unknown. If it is unknown or its links differ, change reads the namespace.
func (a *Agent) change(ctx context.Context, settled *dataplane.State, want dataplane.State) ([]dataplane.Change, error) {
	have := settled
	if have == nil || !sameLinks(have, &want) {
		a.lastRead = a.opts.Clock.Now()
		seen, err := a.opts.Kernel.Read(ctx, a.opts.Own)
		if err != nil {
			return nil, fmt.Errorf("reading the network state of the kernel: %w", err)
		}
		have, a.took = &seen, a.opts.Clock.Since(a.lastRead)
	}
	changes := dataplane.Diff(*have, want, a.opts.Own)
	if len(changes) > 0 {
		err := a.opts.Kernel.Apply(ctx, changes)
		a.opts.Metrics.applied(err)
		if err != nil {
			return nil, fmt.Errorf("applying the wanted network state: %w", err)
		}
		if a.reached != nil { // another program changed the namespace
			a.opts.Metrics.drifted(len(changes))
		}
	}
	if missing := dataplane.Missing(*have, want); len(missing) > 0 {
		return changes, fmt.Errorf("waiting for link %s: its process has not created it yet", strings.Join(missing, ", "))
	}
	return changes, nil
}

// sameLinks reports whether two states have the same links, addresses and WireGuard devices. If these differ, the known content of the
// namespace is not reliable. A changed link implicitly deletes other objects, and WireGuard sends no notification when a peer's endpoint
// moves.
func sameLinks(a, b *dataplane.State) bool {
	return slices.Equal(a.Links, b.Links) && slices.Equal(a.Addresses, b.Addresses) && reflect.DeepEqual(a.WireGuard, b.WireGuard)
}

// logFailure logs a failure, unless it equals the last logged failure.
func (a *Agent) logFailure(err error) {
	if err.Error() == a.lastFailure {
		return
	}
	a.lastFailure = err.Error()
	a.opts.Log.Error("Failed to apply the network configuration", "error", err)
}
