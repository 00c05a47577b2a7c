package remote

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// transport answers requests in the place of a server.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// TestDetectsWithin: an API server that stops responding right after a check counts as down after exactly the longest time that DetectsWithin promises.
func TestDetectsWithin(t *testing.T) {
	for name, opts := range map[string]HealthOptions{
		"the defaults": {}, "others": {Interval: time.Minute, Timeout: time.Second, Failures: 5, RetryInterval: 7 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var cut atomic.Bool
			h, err := NewHealth(&rest.Config{Host: "http://milan", Transport: transport(func(r *http.Request) (*http.Response, error) {
				if !cut.Load() {
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
				}
				<-r.Context().Done()
				return nil, r.Context().Err()
			})}, opts)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			changes := h.Subscribe()
			go func() { _ = h.Run(ctx) }()
			<-changes
			cut.Store(true)
			began := time.Now()
			<-changes
			if took, want := time.Since(began), opts.DetectsWithin(); took != want || h.State().Up {
				t.Errorf("%s: up is %t after %s, want that it is noticed after %s", name, h.State().Up, took, want)
			}
		})
	}
	if limit := (HealthOptions{}).DetectsWithin(); limit > 30*time.Second {
		t.Errorf("the defaults notice a cut after %s, Health promises 30 s", limit)
	}
}
