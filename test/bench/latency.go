package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
)

// Latency is the distribution of the time, in milliseconds, from a request that changes an object to the watch event of its copy in the other
// cluster. All changes are of one kind of object.
type Latency struct {
	Kind string `json:"kind"`
	// PerSecond is the rate of the changes; 0 means that each change waits for the previous one.
	PerSecond int     `json:"perSecond"`
	Changes   int     `json:"changes"`
	P50       float64 `json:"p50Milliseconds"`
	P99       float64 `json:"p99Milliseconds"`
	Longest   float64 `json:"longestMilliseconds"`
	// Busy is the average share of the machine's cores that were busy. If it is near 1, the latency is mostly time spent waiting for a core.
	Busy float64 `json:"machineBusy"`
	// ClusterCPU is the CPU time that the programs of the two clusters used per change, in milliseconds, by cluster and program.
	ClusterCPU map[string]float64 `json:"clusterCPUMillisecondsPerChange"`
	// Without means that Liqo took no part in the change: the measurement is for comparison, and has no target.
	Without bool `json:"without,omitempty"`
	// Problem is the reason why there are no figures.
	Problem string `json:"problem,omitempty"`
}

const (
	// changeKey is the condition that is changed, dataKey the changed key of data.
	changeKey = "bench.liqo.io/change"
	// versionLabel is the changed label of Services. Liqo copies only metadata that it knows, and this is such a label.
	versionLabel = "app.kubernetes.io/version"
	dataKey      = "change"
	// quietChanges and busyChanges are the numbers of changes per measurement. busyRate is the number of changes per second.
	quietChanges = 300
	busyChanges  = 1000
	busyRate     = 100
	// quietPause is the time between the arrival of one change and the next change.
	quietPause = 20 * time.Millisecond
)

// latencies measures the latency of each subject, while the pods of the current run exist.
func (b *scaleBench) latencies(ctx context.Context, subjects ...func(context.Context, kubernetes.Interface, kubernetes.Interface) (subject, error)) ([]Latency, error) {
	rome, err := frugal(b.rome)
	if err != nil {
		return nil, err
	}
	milan, err := frugal(b.milan)
	if err != nil {
		return nil, err
	}
	var all []Latency
	for _, make := range subjects {
		s, err := make(ctx, rome, milan)
		if err != nil {
			return nil, fmt.Errorf("preparing latencies: %w", err)
		}
		err = s.twins(ctx, func(n int) bool { return n >= len(s.names) })
		if err == nil {
			_, err = quiet(ctx, b.patience)
		}
		if err != nil {
			all = append(all, Latency{Kind: s.kind, Problem: err.Error()})
			continue
		}
		for _, rate := range []int{0, busyRate} {
			latency, err := b.measureLatency(ctx, &s, rate)
			if err != nil {
				latency.Problem = err.Error()
			}
			report("%s, %d changes a second: p50 %.0f ms, p99 %.0f ms, machine %.0f %% busy %s", s.kind, rate, latency.P50, latency.P99, 100*latency.Busy,
				latency.Problem)
			all = append(all, latency)
			if latency.Problem != "" {
				break
			}
		}
		if s.remove != nil {
			// Wait until the copies are deleted too. Otherwise the next measurement would include their deletion.
			if err := errors.Join(s.remove(ctx), s.twins(ctx, func(n int) bool { return n == 0 })); err != nil {
				return nil, fmt.Errorf("removing objects of kind %s: %w", s.kind, err)
			}
		}
	}
	return all, nil
}

// measureLatency measures the latency of changes, and the load of the machine during the measurement.
func (b *scaleBench) measureLatency(ctx context.Context, s *subject, perSecond int) (Latency, error) {
	busy, idle, err := machine()
	if err != nil {
		return Latency{}, err
	}
	cpu, err := b.clusterCPU()
	if err != nil {
		return Latency{}, err
	}
	latency, failed := s.measure(ctx, perSecond)
	latency.Without = s.without
	busyNow, idleNow, err := machine()
	if err != nil {
		return latency, errors.Join(failed, err)
	}
	latency.Busy = (busyNow - busy) / (busyNow - busy + idleNow - idle)
	if latency.ClusterCPU, err = b.clusterCPU(); err != nil {
		return latency, errors.Join(failed, err)
	}
	for name := range latency.ClusterCPU {
		latency.ClusterCPU[name] = 1000 * (latency.ClusterCPU[name] - cpu[name]) / float64(latency.Changes)
	}
	return latency, failed
}

// twins waits until wanted returns true for the number of objects that have a copy.
func (s *subject) twins(ctx context.Context, wanted func(n int) bool) error {
	if s.count == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		n, err := s.count(ctx)
		if err == nil && wanted(n) {
			pause(ctx, settle)
			return nil
		}
		if !pause(ctx, 500*time.Millisecond) {
			return fmt.Errorf("after a minute %d of %d have a twin: %w", n, len(s.names), errors.Join(err, context.Cause(ctx)))
		}
	}
}

// measure changes objects, at perSecond changes per second. If perSecond is 0, each change waits for the arrival of the previous one.
func (s *subject) measure(ctx context.Context, perSecond int) (Latency, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("changes took too long"))
	defer cancel()
	latency := Latency{Kind: s.kind, PerSecond: perSecond, Changes: quietChanges}
	if perSecond > 0 {
		latency.Changes = busyChanges
	}
	arrivals, err := s.follow(ctx)
	if err != nil {
		return latency, err
	}
	// Start with a number that no other measurement has used.
	first := int(time.Now().UnixMilli())
	made := make([]time.Time, latency.Changes)
	var group errgroup.Group
	group.SetLimit(perSecond + 1)
	tick := time.NewTicker(time.Second / time.Duration(max(perSecond, 1)))
	defer tick.Stop()
	for i := range latency.Changes {
		name := s.names[i*7%len(s.names)] // not in the order of creation
		made[i] = time.Now()
		if perSecond > 0 {
			group.Go(func() error { return s.change(ctx, name, first+i) })
			<-tick.C
			continue
		}
		if err := s.change(ctx, name, first+i); err != nil {
			return latency, err
		}
		if !arrivals.wait(ctx, first, i+1, 10*time.Second) {
			if ctx.Err() != nil {
				return latency, context.Cause(ctx)
			}
			latency.Problem = s.missing(context.WithoutCancel(ctx), name, first+i, made[i], arrivals)
			return latency, nil
		}
		pause(ctx, quietPause)
	}
	if err := group.Wait(); err != nil {
		return latency, err
	}
	if !arrivals.wait(ctx, first, latency.Changes, 10*time.Second) {
		latency.Problem = "not all changes arrived within 10 s"
		return latency, nil
	}
	var milliseconds []float64
	for i, t := range made {
		milliseconds = append(milliseconds, arrivals.at(first+i).Sub(t).Seconds()*1000)
	}
	slices.Sort(milliseconds)
	latency.P50, latency.P99 = milliseconds[len(milliseconds)/2], milliseconds[len(milliseconds)*99/100]
	latency.Longest = milliseconds[len(milliseconds)-1]
	return latency, nil
}

// missing says what happened to a change that no watch showed within 10 s, because a change that comes late, a watch that ended, and a change that is lost have different
// causes.
func (s *subject) missing(ctx context.Context, name string, n int, made time.Time, a *arrivals) string {
	problem := fmt.Sprintf("change %d of %s did not arrive within 10 s", n, name)
	if a.hasEnded() {
		problem += ", the watch of the copies had ended"
	}
	if s.read == nil {
		return problem
	}
	var last error
	for time.Since(made) < time.Minute {
		object, err := s.read(ctx, name)
		if last = err; err == nil {
			if has, found := s.number(object); found && has >= n {
				return fmt.Sprintf("%s: the copy has it after %.0f s", problem, time.Since(made).Seconds())
			}
		}
		pause(ctx, 500*time.Millisecond)
	}
	return fmt.Sprintf("%s: the copy does not have it after a minute: it is lost (last error %v)", problem, last)
}

// arrivals holds the time when each change was first observed.
type arrivals struct {
	mu   sync.Mutex
	seen map[int]time.Time
	news chan struct{}
	// ended means that the API server has ended the watch.
	ended bool
}

func (a *arrivals) hasEnded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}

// follow watches the copies until the context ends.
func (s *subject) follow(ctx context.Context) (*arrivals, error) {
	w, err := s.watch(ctx)
	if err != nil {
		return nil, err
	}
	a := &arrivals{seen: map[int]time.Time{}, news: make(chan struct{}, 1)}
	go func() {
		defer w.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case event, ok := <-w.ResultChan():
				if !ok {
					a.mu.Lock()
					a.ended = true
					a.mu.Unlock()
					return // the caller notices missing changes by its timeout
				}
				n, found := s.number(event.Object)
				if !found {
					continue
				}
				a.mu.Lock()
				if _, known := a.seen[n]; !known {
					a.seen[n] = time.Now()
				}
				a.mu.Unlock()
				select {
				case a.news <- struct{}{}:
				default:
				}
			}
		}
	}()
	return a, nil
}

func (a *arrivals) at(n int) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[n]
}

// wait waits until count changes, starting with first, have arrived. It returns false after the limit.
func (a *arrivals) wait(ctx context.Context, first, count int, limit time.Duration) bool {
	deadline := time.After(limit)
	for {
		a.mu.Lock()
		there := 0
		for n := range a.seen {
			if n >= first {
				there++
			}
		}
		a.mu.Unlock()
		if there >= count {
			return true
		}
		select {
		case <-a.news:
		case <-deadline:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
