package remote

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"liqo.io/liqo/internal/metrics"
)

// Observe makes each request with cfg call observe with the HTTP method and the time until the response began, or until the request failed.
func Observe(cfg *rest.Config, observe func(method string, took time.Duration)) {
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &observer{next: rt, observe: observe} })
}

// observer is the transport that Observe adds.
type observer struct {
	next    http.RoundTripper
	observe func(method string, took time.Duration)
}

// WrappedRoundTripper returns the wrapped transport, for callers that search for a transport of a certain type.
func (o *observer) WrappedRoundTripper() http.RoundTripper { return o.next }

// RoundTrip implements http.RoundTripper.
func (o *observer) RoundTrip(req *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := o.next.RoundTrip(req)
	o.observe(req.Method, time.Since(began))
	return resp, err
}

// RequestMetrics registers the metric of requests to a provider, and returns the function that records one, for Observe.
func RequestMetrics(registry prometheus.Registerer, cluster string) func(method string, took time.Duration) {
	requests := metrics.PeerAPIServerRequests.NewHistogram()
	registry.MustRegister(requests)
	return func(method string, took time.Duration) {
		requests.WithLabelValues(cluster, method).Observe(took.Seconds())
	}
}
