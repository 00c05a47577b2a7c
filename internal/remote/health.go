package remote

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"liqo.io/liqo/internal/trigger"
)

// State is the observed reachability of the other API server.
type State struct {
	// Known reports whether there is a result yet. Once true, it stays true.
	Known bool
	// Up reports whether the API server responds. It is false at first.
	Up bool
	// Since is the time of the last change of Up, or the start of the observation.
	Since time.Time
	// Err is why the API server is not up; nil if it is up.
	Err error
}

// HealthOptions configure a Health. Zero values mean the defaults.
type HealthOptions struct {
	// Interval is the time between checks while the API server responds. The default is 10 s.
	Interval time.Duration
	// Timeout limits one check. The default is 5 s.
	Timeout time.Duration
	// Failures is the number of successive failures after which the API server counts as down. The default is 3. After a first
	// failure, the next check follows after RetryInterval.
	Failures int
	// RetryInterval is the time between checks after a failure. The default is 2 s. It limits how long a recovered link stays
	// undetected.
	RetryInterval time.Duration
	// Clock is the real clock unless a test sets another one.
	Clock clock.WithTicker
}

// withDefaults returns the options with the defaults in place of zero values.
func (o HealthOptions) withDefaults() HealthOptions {
	o.Interval = cmp.Or(o.Interval, 10*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.Failures = cmp.Or(o.Failures, 3)
	o.RetryInterval = cmp.Or(o.RetryInterval, 2*time.Second)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

// DetectsWithin returns the longest time from the moment at which the API server stops responding until it counts as down. The server may stop
// right after a check, and each later check may take its full Timeout.
func (o HealthOptions) DetectsWithin() time.Duration {
	o = o.withDefaults()
	checks := time.Duration(o.Failures)
	return o.Interval + checks*o.Timeout + (checks-1)*o.RetryInterval
}

// Health checks GET /livez of the other API server periodically, and notifies its subscribers of changes. With the defaults, a
// link that was cut silently counts as down within 30 seconds, a refused connection within 15 seconds, and a recovered link as up
// within 7 seconds.
type Health struct {
	client *http.Client
	url    string
	opts   HealthOptions

	mu          sync.Mutex
	state       State
	subscribers []trigger.Trigger
}

// NewHealth returns a Health for the API server of cfg. The checks start with Run.
func NewHealth(cfg *rest.Config, opts HealthOptions) (*Health, error) {
	opts = opts.withDefaults()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("creating a client for %s: %w", cfg.Host, err)
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("reading address %s: %w", cfg.Host, err)
	}
	return &Health{
		client: client,
		url:    base.JoinPath("livez").String(),
		opts:   opts,
		state:  State{Since: opts.Clock.Now(), Err: errNoAnswer},
	}, nil
}

// State returns the current state.
func (h *Health) State() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

// Subscribe returns a channel that receives a value after the first result and after every change of State().Up. The channel
// buffers one value: a slow reader gets a single value for several changes, and then reads State.
func (h *Health) Subscribe() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := trigger.New()
	h.subscribers = append(h.subscribers, ch)
	return ch
}

// Run runs the checks until ctx ends, and then returns nil.
func (h *Health) Run(ctx context.Context) error {
	failures := 0
	for {
		err := h.check(ctx)
		if ctx.Err() != nil {
			return nil
		}
		delay := h.opts.Interval
		if err == nil {
			failures = 0
			h.set(true, nil)
		} else {
			failures++
			delay = h.opts.RetryInterval
			if failures >= h.opts.Failures {
				h.set(false, err)
				// Connections from before the outage must not carry the first requests after it.
				utilnet.CloseIdleConnectionsFor(h.client.Transport)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-h.opts.Clock.After(delay):
		}
	}
}

// Ask checks the API server once, now. It does not change the State, which may be as old as the next check.
func (h *Health) Ask(ctx context.Context) error { return h.check(ctx) }

func (h *Health) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, nil)
	if err != nil {
		return fmt.Errorf("requesting %s: %w", h.url, err)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return err // net/http already adds the method and the address
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusUnauthorized {
		return fmt.Errorf("requesting %s: %w", h.url, ErrUnauthorized)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("requesting %s: %s", h.url, resp.Status)
	}
	return nil
}

func (h *Health) set(up bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := h.state.Up != up || !h.state.Known
	h.state.Known, h.state.Up, h.state.Err = true, up, err
	if !changed {
		return
	}
	h.state.Since = h.opts.Clock.Now()
	for _, subscriber := range h.subscribers {
		subscriber.Fire()
	}
}
