// Package metrics defines every metric of the project: its name, type, labels and help text. The programs create their metrics from these
// definitions only. So the reference page and the alerts can be checked against one list.
package metrics

import (
	"context"
	"crypto/x509"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"liqo.io/liqo/internal/version"
)

// Type is the type of a metric, as Prometheus names it.
type Type string

// Types of metrics.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Programs that serve metrics.
const (
	ControllerManager = "controller-manager"
	VirtualKubelet    = "virtual-kubelet"
	Gateway           = "gateway"
	Fabric            = "fabric"
	Proxy             = "proxy"
)

// Definition is one metric.
type Definition struct {
	// Name and Help are those that Prometheus shows. Labels are the names of the labels, in the order in which values are given.
	Name, Help string
	Type       Type
	Labels     []string
	// Buckets are the upper bounds of a histogram.
	Buckets []float64
	// Programs are the programs that serve the metric.
	Programs []string
	// Series describes how many time series the metric has.
	Series string
	// Fixed is true for names that dashboards of earlier versions use. They do not follow all naming rules of Prometheus.
	Fixed bool
}

func (d *Definition) desc() *prometheus.Desc {
	return prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
}

// NewCounter returns a counter without values. The definition must be one of a counter.
func (d *Definition) NewCounter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
}

// NewHistogram returns a histogram without values. The definition must be one of a histogram.
func (d *Definition) NewHistogram() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: d.Buckets}, d.Labels)
}

// Value returns one value of a counter or gauge, with the values of its labels in the order of the definition.
func (d *Definition) Value(value float64, labels ...string) prometheus.Metric {
	kind := prometheus.GaugeValue
	if d.Type == Counter {
		kind = prometheus.CounterValue
	}
	metric, err := prometheus.NewConstMetric(d.desc(), kind, value, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(d.desc(), err)
	}
	return metric
}

// Bool returns 1 for true and 0 for false.
func Bool(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Emit reports one value of a counter or gauge, with the values of its labels in the order of the definition.
type Emit func(d *Definition, value float64, labels ...string)

// scrapeTimeout limits how long the computation at a scrape may take, for example while it waits for a cache.
const scrapeTimeout = 2 * time.Second

// Computed is a collector that computes its metrics at each scrape. It reports each value through emit. Several components may report values of the
// same metric, with different labels.
type Computed func(ctx context.Context, emit Emit)

// Describe implements prometheus.Collector. It sends nothing: the registry would refuse a second collector of the same metric.
func (Computed) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c Computed) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	c(ctx, func(d *Definition, value float64, labels ...string) { out <- d.Value(value, labels...) })
}

// EmitCertificate reports when a certificate expires and for how long it was issued. The labels are those of CertificateExpiry.
func EmitCertificate(emit Emit, certificate *x509.Certificate, now time.Time, labels ...string) {
	EmitLifetime(emit, certificate.NotBefore, certificate.NotAfter, now, labels...)
}

// EmitLifetime reports the same values as EmitCertificate for a token. The token is valid between from and until.
func EmitLifetime(emit Emit, from, until, now time.Time, labels ...string) {
	emit(CertificateExpiry, until.Sub(now).Seconds(), labels...)
	emit(CertificateLifetime, until.Sub(from).Seconds(), labels...)
}

// Build returns the collector of BuildInfo for a program.
func Build(program string) prometheus.Collector {
	return Computed(func(_ context.Context, emit Emit) { emit(BuildInfo, 1, program, version.Version, runtime.Version()) })
}
