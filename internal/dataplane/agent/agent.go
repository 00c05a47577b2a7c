// Package agent keeps a network namespace as it is wanted: it compares what is wanted with what is there and changes the difference,
// whenever either may have changed. It remembers nothing that matters: ended at any moment and started again, it finds nothing to do.
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
)

const (
	// DefaultRefresh is how often all is looked at although nobody told of a change.
	DefaultRefresh = 30 * time.Second
	// pause is the least time between two passes, so that a burst of news makes few.
	pause = 50 * time.Millisecond
	// retryFirst and retryLast bound how long a failed pass waits before the next try; it doubles in between.
	retryFirst, retryLast = 100 * time.Millisecond, 5 * time.Second
	// rest is how many times as long as the last look took the next one is put off while all is well, and longestRest the most: where there are
	// thousands of routes a look takes tens of milliseconds, and each change of our own asks for one.
	rest, longestRest = 30, 2 * time.Second
	// listed is how many changes of a pass are told of in full.
	listed = 16
)

// ErrUnknown is what Options.Want returns while not everything was heard, yet.
var ErrUnknown = errors.New("not everything is known yet")

// Options of an Agent.
type Options struct {
	Kernel dataplane.Kernel
	Own    dataplane.Ownership
	// Want returns what there is to be: the states to go through, the last of which is to stay. Mostly that is one. As long as it fails, with
	// ErrUnknown or anything else, nothing is changed.
	Want func(context.Context) ([]dataplane.State, error)
	// Settled is called whenever everything was found, made, or still known to be, as it is wanted; it may be nil.
	Settled func()
	// Refresh is DefaultRefresh when zero, Clock the real one when nil.
	Refresh time.Duration
	Clock   clock.Clock
	Log     *slog.Logger
}

// Agent keeps one network namespace. Make one with New.
type Agent struct {
	opts Options
	news chan struct{} // what is wanted may have changed
	look chan struct{} // what is there may have changed

	settled *dataplane.State // what was wanted when all was last found as wanted; nil when that may no longer be
	looked  time.Time        // when what is there was last looked at
	took    time.Duration    // how long that took
	told    string           // the last failure that was told of
	journal journal
}

// New returns an Agent that does nothing before Run or Pass.
func New(opts Options) *Agent {
	if opts.Refresh == 0 {
		opts.Refresh = DefaultRefresh
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	return &Agent{opts: opts, news: make(chan struct{}, 1), look: make(chan struct{}, 1), journal: journal{log: opts.Log}}
}

// Facts tells that what is wanted may have changed. It never waits.
func (a *Agent) Facts() { signal(a.news) }

// Look tells that what is there may have changed. It never waits.
func (a *Agent) Look() { signal(a.look) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it will be seen
	}
}

// Run keeps the namespace until ctx ends, and leaves it as it is then.
func (a *Agent) Run(ctx context.Context) error {
	retry := retryFirst
	for {
		// News, however often they come, do not put off the next look.
		wait := a.opts.Refresh
		if err := a.Pass(ctx); ctx.Err() == nil && err != nil && !errors.Is(err, ErrUnknown) {
			wait, retry = retry, min(2*retry, retryLast)
		} else {
			retry = retryFirst
			if a.settled != nil {
				wait -= a.opts.Clock.Since(a.looked)
			}
		}
		if !a.wait(ctx, wait) {
			return nil
		}
		if a.opts.Clock.Since(a.looked) >= a.opts.Refresh {
			a.settled = nil
		}
	}
}

// wait is over when there is news, when a look is asked for and due, or after some time. It tells whether ctx goes on.
func (a *Agent) wait(ctx context.Context, d time.Duration) bool {
	if !sleep(ctx, a.opts.Clock, pause) {
		return false
	}
	end, rested := a.opts.Clock.NewTimer(d-pause), a.opts.Clock.NewTimer(a.resting())
	defer end.Stop()
	defer rested.Stop()
	var look <-chan struct{} // none while it rests
	for {
		select {
		case <-ctx.Done():
			return false
		case <-rested.C():
			look = a.look
			continue
		case <-look:
			a.settled = nil
			return true
		case <-a.news:
		case <-end.C():
		}
		break
	}
	if a.resting() <= 0 { // news that never end do not put off a look
		select {
		case <-a.look:
			a.settled = nil
		default:
		}
	}
	return true
}

// resting is for how long no look is due, however many ask for one.
func (a *Agent) resting() time.Duration {
	if a.settled == nil {
		return 0
	}
	return min(rest*a.took, longestRest) - a.opts.Clock.Since(a.looked)
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

// Pass makes the namespace what is wanted, in one go. What is there is not even looked at if the last pass found everything as it was
// wanted, nobody has told of a change since, and what is wanted now differs in nothing but what others' changes would have been told of. Not to
// be called while Run runs.
func (a *Agent) Pass(ctx context.Context) error {
	want, err := a.opts.Want(ctx)
	if err != nil {
		if !errors.Is(err, ErrUnknown) {
			a.tell(fmt.Errorf("finding out what is wanted: %w", err))
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
	settled := a.settled
	a.settled = nil
	for _, state := range want {
		changes, err := a.change(ctx, settled, state)
		settled = nil
		a.journal.tell(changes, a.opts.Clock.Now())
		if err != nil {
			if ctx.Err() == nil {
				a.tell(err)
			}
			return err
		}
	}
	if a.told != "" {
		a.opts.Log.Info("Recovered", "from", a.told)
		a.told = ""
	}
	a.settled = &want[len(want)-1]
	a.done()
	return nil
}

func (a *Agent) done() {
	if a.opts.Settled != nil {
		a.opts.Settled()
	}
}

// change makes what is there what is wanted, and returns what that took, as far as it went. settled is what is known to be there, nil for
// nothing.
func (a *Agent) change(ctx context.Context, settled *dataplane.State, want dataplane.State) ([]dataplane.Change, error) {
	have := settled
	if have == nil || !sameLinks(have, &want) {
		a.looked = a.opts.Clock.Now()
		seen, err := a.opts.Kernel.Read(ctx, a.opts.Own)
		if err != nil {
			return nil, fmt.Errorf("reading what is there: %w", err)
		}
		have, a.took = &seen, a.opts.Clock.Since(a.looked)
	}
	changes := dataplane.Diff(*have, want, a.opts.Own)
	if len(changes) > 0 {
		if err := a.opts.Kernel.Apply(ctx, changes); err != nil {
			return nil, fmt.Errorf("changing what is there: %w", err)
		}
	}
	if missing := dataplane.Missing(*have, want); len(missing) > 0 {
		return changes, fmt.Errorf("waiting for link %s: its process has not made it yet", strings.Join(missing, ", "))
	}
	return changes, nil
}

// sameLinks tells whether two states differ in neighbours, routes, rules and filters at most. Other links take more along than they say, and
// WireGuard devices, whose peers move by themselves, tell nobody.
func sameLinks(a, b *dataplane.State) bool {
	return slices.Equal(a.Links, b.Links) && slices.Equal(a.Addresses, b.Addresses) && reflect.DeepEqual(a.WireGuard, b.WireGuard)
}

// tell logs a failure unless it is the one that was told of last.
func (a *Agent) tell(err error) {
	if err.Error() == a.told {
		return
	}
	a.told = err.Error()
	a.opts.Log.Error("Failed", "error", err)
}
