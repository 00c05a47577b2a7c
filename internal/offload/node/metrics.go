package node

import (
	"context"
	"crypto/x509"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/metrics"
	"liqo.io/liqo/internal/remote"
)

// Metrics holds the values from which the metrics of a virtual node are computed.
type Metrics struct {
	Cluster, Name string
	// State returns the state of the provider's API server, and Pods the local pods on the node.
	State func() remote.State
	Pods  func() []client.Object
	// Certificate returns the serving certificate; nil if there is none.
	Certificate func() *x509.Certificate
	Now         func() time.Time
}

// Measure reports the metrics of the virtual node.
func (m *Metrics) Measure(_ context.Context, emit metrics.Emit) {
	if state := m.State(); state.Known {
		emit(metrics.PeerAPIServerReachable, metrics.Bool(state.Up), m.Cluster)
	}
	phases := map[corev1.PodPhase]int{corev1.PodPending: 0, corev1.PodRunning: 0, corev1.PodSucceeded: 0, corev1.PodFailed: 0, corev1.PodUnknown: 0}
	for _, obj := range m.Pods() {
		if pod, ok := obj.(*corev1.Pod); ok {
			phases[pod.Status.Phase]++
		}
	}
	for phase, count := range phases {
		emit(metrics.VirtualNodePods, float64(count), m.Cluster, m.Name, string(phase))
	}
	if m.Certificate != nil {
		metrics.EmitCertificate(emit, m.Certificate(), m.Now(), m.Cluster, "Node", "", m.Name)
	}
}
