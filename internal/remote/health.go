package remote

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// State is what is known about the other side.
type State struct {
	// Known tells that there is a verdict; it stays true once it is.
	Known bool
	// Up tells whether it answers. It starts false.
	Up bool
	// Since is when Up last changed, or when watching began.
	Since time.Time
	// Err is why it is not up; nil when it is.
	Err error
}

// HealthOptions tune a Health; zero values mean the defaults.
type HealthOptions struct {
	// Interval between checks while the other side answers; 10 s.
	Interval time.Duration
	// Timeout of a check; 5 s.
	Timeout time.Duration
	// Failures in a row before the other side counts as down; 3. A first failure is repeated after RetryInterval.
	Failures int
	// RetryInterval between checks after a failure; 2 s. It bounds how long a healed link stays unnoticed.
	RetryInterval time.Duration
	// Clock is time itself unless a test says otherwise.
	Clock clock.WithTicker
}

// Health asks GET /livez of the other side's API server, over and over, and tells when the answer changes. With the defaults a link
// cut without a word is down within 30 seconds, a refused connection within 15, and a healed one is up within 7.
type Health struct {
	client *http.Client
	url    string
	opts   HealthOptions

	mu          sync.Mutex
	state       State
	subscribers []chan struct{}
}

// NewHealth makes a Health for the API server that cfg leads to; Run makes it work.
func NewHealth(cfg *rest.Config, opts HealthOptions) (*Health, error) {
	if opts.Interval == 0 {
		opts.Interval = 10 * time.Second
	}
	if opts.Timeout == 0 {
		opts.Timeout = 5 * time.Second
	}
	if opts.Failures == 0 {
		opts.Failures = 3
	}
	if opts.RetryInterval == 0 {
		opts.RetryInterval = 2 * time.Second
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", cfg.Host, err)
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

// State returns what is known now.
func (h *Health) State() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

// Subscribe returns a channel that receives after the first verdict and after every change of State().Up. It holds one value: a reader that was busy finds one
// message however many changes it missed, and reads State.
func (h *Health) Subscribe() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := make(chan struct{}, 1)
	h.subscribers = append(h.subscribers, ch)
	return ch
}

// Run checks until ctx ends, and returns nil then.
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
				// What was left of the old link must not carry the first requests after it heals.
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

func (h *Health) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", h.url, err)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return err // net/http names the method and the address
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("asking %s: %s", h.url, resp.Status)
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
	for _, ch := range h.subscribers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
