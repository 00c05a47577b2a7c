package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"liqo.io/liqo/internal/metrics"
)

// Values of label "result".
const (
	resultSuccess = "success"
	resultError   = "error"
)

// Metrics record what an Agent does. A nil Metrics records nothing.
type Metrics struct {
	applies  *prometheus.CounterVec
	drift    prometheus.Counter
	duration prometheus.Observer
}

// NewMetrics registers the metrics of one Agent.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	applies, drift, duration := metrics.DataplaneApplies.NewCounter(), metrics.DataplaneDrift.NewCounter(), metrics.DataplaneDuration.NewHistogram()
	registry.MustRegister(applies, drift, duration)
	// Create the series at the start, so that queries see the first increase.
	applies.WithLabelValues(resultSuccess)
	applies.WithLabelValues(resultError)
	return &Metrics{applies: applies, drift: drift.WithLabelValues(), duration: duration.WithLabelValues()}
}

// applied records an attempt to change the network configuration.
func (m *Metrics) applied(err error) {
	switch {
	case m == nil:
	case err != nil:
		m.applies.WithLabelValues(resultError).Inc()
	default:
		m.applies.WithLabelValues(resultSuccess).Inc()
	}
}

// drifted counts changes by other programs that the agent reverted.
func (m *Metrics) drifted(changes int) {
	if m != nil {
		m.drift.Add(float64(changes))
	}
}

// passed records the duration of a complete pass.
func (m *Metrics) passed(took time.Duration) {
	if m != nil {
		m.duration.Observe(took.Seconds())
	}
}
