package app

import (
	"context"
	"crypto/x509"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/metrics"
	"liqo.io/liqo/internal/remote"
)

// reflectionMetrics are metrics about reflected objects and failures.
type reflectionMetrics struct {
	done, failed   *prometheus.CounterVec
	duration       *prometheus.HistogramVec
	reflected      func(report func(kind, namespace string, count int))
	cluster, where string
}

// newReflectionMetrics registers the metrics of reflection to a virtual node. reflected calls its argument with the number of objects in the
// provider.
func newReflectionMetrics(
	registry prometheus.Registerer, cluster, node string, reflected func(report func(kind, namespace string, count int)),
) *reflectionMetrics {
	m := &reflectionMetrics{
		reflected: reflected, cluster: cluster, where: node,
		done: metrics.ReflectedTotal.NewCounter(), failed: metrics.ReflectionErrors.NewCounter(),
		duration: metrics.ReflectionDuration.NewHistogram(),
	}
	registry.MustRegister(m, m.duration)
	return m
}

// Describe implements prometheus.Collector. It sends no descriptions, since Collect computes the metrics at each scrape.
func (m *reflectionMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. A virtual kubelet that has reflected nothing yet, for example after a restart, reports counters with value
// 0 for the kinds of the objects in the provider. Without these, a query would see no increase at the first failure.
func (m *reflectionMetrics) Collect(out chan<- prometheus.Metric) {
	m.reflected(func(kind, namespace string, count int) {
		out <- metrics.ReflectedItems.Value(float64(count), namespace, kind, m.cluster, m.where)
		for _, counter := range []*prometheus.CounterVec{m.done, m.failed} {
			counter.WithLabelValues(namespace, kind, m.cluster, m.where)
		}
	})
	m.done.Collect(out)
	m.failed.Collect(out)
}

func (m *reflectionMetrics) did(kind, namespace string) {
	m.done.WithLabelValues(namespace, kind, m.cluster, m.where).Inc()
}

func (m *reflectionMetrics) fail(kind, namespace string) {
	m.failed.WithLabelValues(namespace, kind, m.cluster, m.where).Inc()
}

// Values of label direction.
const (
	outgoing = "outgoing"
	incoming = "incoming"
)

func (m *reflectionMetrics) took(kind string, toProvider bool, took time.Duration) {
	direction := incoming
	if toProvider {
		direction = outgoing
	}
	m.duration.WithLabelValues(kind, direction, m.cluster, m.where).Observe(took.Seconds())
}

// nodeMetrics holds the values from which the metrics of a virtual node are computed.
type nodeMetrics struct {
	cluster, name string
	// state returns the state of the provider's API server, and pods the local pods on the node.
	state func() remote.State
	pods  func() []client.Object
	// certificate returns the serving certificate; nil if there is none.
	certificate func() *x509.Certificate
	now         func() time.Time
}

// measure reports the metrics of the virtual node.
func (v *nodeMetrics) measure(_ context.Context, emit metrics.Emit) {
	if state := v.state(); state.Known {
		emit(metrics.PeerAPIServerReachable, metrics.Bool(state.Up), v.cluster)
	}
	phases := map[corev1.PodPhase]int{corev1.PodPending: 0, corev1.PodRunning: 0, corev1.PodSucceeded: 0, corev1.PodFailed: 0, corev1.PodUnknown: 0}
	for _, obj := range v.pods() {
		if pod, ok := obj.(*corev1.Pod); ok {
			phases[pod.Status.Phase]++
		}
	}
	for phase, count := range phases {
		emit(metrics.VirtualNodePods, float64(count), v.cluster, v.name, string(phase))
	}
	if v.certificate != nil {
		metrics.EmitCertificate(emit, v.certificate(), v.now(), v.cluster, "Node", "", v.name)
	}
}

// requestObserver registers the metric of requests to a provider, and returns the function that records one.
func requestObserver(registry prometheus.Registerer, cluster string) func(method string, took time.Duration) {
	requests := metrics.PeerAPIServerRequests.NewHistogram()
	registry.MustRegister(requests)
	return func(method string, took time.Duration) {
		requests.WithLabelValues(cluster, method).Observe(took.Seconds())
	}
}
