package reflection

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"liqo.io/liqo/internal/metrics"
)

// Metrics are the metrics of a virtual kubelet about reflected objects and failures.
type Metrics struct {
	done, failed   *prometheus.CounterVec
	duration       *prometheus.HistogramVec
	reflected      func(report func(kind, namespace string, count int))
	cluster, where string
}

// NewMetrics registers the metrics of reflection to a virtual node. reflected calls its argument with the number of objects in the
// provider.
func NewMetrics(
	registry prometheus.Registerer, cluster, node string, reflected func(report func(kind, namespace string, count int)),
) *Metrics {
	m := &Metrics{
		reflected: reflected, cluster: cluster, where: node,
		done: metrics.ReflectedTotal.NewCounter(), failed: metrics.ReflectionErrors.NewCounter(),
		duration: metrics.ReflectionDuration.NewHistogram(),
	}
	registry.MustRegister(m, m.duration)
	return m
}

// Describe implements prometheus.Collector. It sends no descriptions, since Collect computes the metrics at each scrape.
func (m *Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. A virtual kubelet that has reflected nothing yet, for example after a restart, reports counters with value
// 0 for the kinds of the objects in the provider. Without these, a query would see no increase at the first failure.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.reflected(func(kind, namespace string, count int) {
		out <- metrics.ReflectedItems.Value(float64(count), namespace, kind, m.cluster, m.where)
		for _, counter := range []*prometheus.CounterVec{m.done, m.failed} {
			counter.WithLabelValues(namespace, kind, m.cluster, m.where)
		}
	})
	m.done.Collect(out)
	m.failed.Collect(out)
}

// Did counts an object that was reflected.
func (m *Metrics) Did(kind, namespace string) {
	m.done.WithLabelValues(namespace, kind, m.cluster, m.where).Inc()
}

// Fail counts an object whose reflection failed.
func (m *Metrics) Fail(kind, namespace string) {
	m.failed.WithLabelValues(namespace, kind, m.cluster, m.where).Inc()
}

// Values of label direction.
const (
	Outgoing = "outgoing"
	Incoming = "incoming"
)

// Took records how long a change took to reach the other cluster.
func (m *Metrics) Took(kind string, toProvider bool, took time.Duration) {
	direction := Incoming
	if toProvider {
		direction = Outgoing
	}
	m.duration.WithLabelValues(kind, direction, m.cluster, m.where).Observe(took.Seconds())
}
