package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"liqo.io/liqo/internal/gateway"
)

// driverWireGuard is the only value of label "driver".
const driverWireGuard = "wireguard"

// Metrics are the metrics of the tunnel to the peer.
type Metrics struct {
	histogram prometheus.Observer
}

// NewMetrics registers the metrics. Most of them call device, rtt or connected at each scrape.
func NewMetrics(registry *prometheus.Registry, peer string, device func() gateway.Device, rtt func() time.Duration, connected func() bool) *Metrics {
	labels := prometheus.Labels{"driver": driverWireGuard, "cluster_id": peer}
	m := &Metrics{}
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "liqo_peer_latency_histogram_us", Help: "Round trips through the tunnel, in microseconds.", ConstLabels: labels,
		Buckets: prometheus.ExponentialBuckets(125, 2, 14), // up to one second
	})
	m.histogram = histogram
	registry.MustRegister(
		histogram,
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "liqo_peer_receive_bytes_total", Help: "Bytes received from the peer through the tunnel.", ConstLabels: labels,
		}, func() float64 { d := device(); received, _ := d.Traffic(); return float64(received) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "liqo_peer_transmit_bytes_total", Help: "Bytes sent to the peer through the tunnel.", ConstLabels: labels,
		}, func() float64 { d := device(); _, sent := d.Traffic(); return float64(sent) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "liqo_peer_latency_us", Help: "Last round trip through the tunnel, in microseconds.", ConstLabels: labels,
		}, func() float64 { return float64(rtt().Microseconds()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "liqo_peer_is_connected", Help: "1 while the peer answers through the tunnel, else 0.", ConstLabels: labels,
		}, func() float64 {
			if connected() {
				return 1
			}
			return 0
		}),
		implementationMetric{},
	)
	return m
}

// Heard records the round-trip time of an answer through the tunnel.
func (m *Metrics) Heard(rtt time.Duration) { m.histogram.Observe(float64(rtt.Microseconds())) }

// implementationMetric shows which implementation of WireGuard is in use, once that is known.
type implementationMetric struct{}

// Describe sends nothing, because the labels are not known yet.
func (implementationMetric) Describe(chan<- *prometheus.Desc) {}

// Collect sends one gauge with value 1, or nothing while the implementation is unknown.
func (implementationMetric) Collect(metrics chan<- prometheus.Metric) {
	used := gateway.InUse(gateway.Directory)
	if used == "" {
		return
	}
	metrics <- prometheus.MustNewConstMetric(
		prometheus.NewDesc("liqo_wireguard_implementation", "The WireGuard that is at work: that of the kernel or the one in user space.",
			nil, prometheus.Labels{"driver": driverWireGuard, "implementation": string(used)}),
		prometheus.GaugeValue, 1)
}
