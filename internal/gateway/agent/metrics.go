package agent

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/metrics"
	"liqo.io/liqo/internal/network"
)

// driverWireGuard is the only value of label "driver".
const driverWireGuard = "wireguard"

// Tunnel holds the values from which the metrics of this replica and its tunnel are computed.
type Tunnel struct {
	// Received and Sent are the bytes since the start of the agent.
	Received, Sent int64
	// PingStats is the result of the pings. Connected reports whether the peer answers now.
	PingStats gateway.PingStats
	Connected bool
	// Handshake is the time of the last WireGuard handshake; zero if there was none.
	Handshake time.Time
	// Active reports whether this replica is the active one. Takeovers counts how often it became the active one.
	Active    bool
	Takeovers int
	// Implementation is the WireGuard in use; empty while unknown.
	Implementation gateway.Implementation
}

// Tunnel returns the present state of the tunnel. It reads WireGuard.
func (a *Agent) Tunnel() Tunnel {
	t := Tunnel{PingStats: a.pinger.PingStats(), Connected: a.Works(), Implementation: gateway.InUse(a.opts.Directory)}
	a.mu.Lock()
	defer a.mu.Unlock()
	device := a.readDevice(time.Now())
	t.Received, t.Sent = a.meter.Totals()
	for _, p := range device.Peers {
		if p.Handshake.After(t.Handshake) {
			t.Handshake = p.Handshake
		}
	}
	t.Active, t.Takeovers = a.session.Replica().State == network.Active, a.takeovers
	return t
}

// Metrics are the metrics of the tunnel to the peer.
type Metrics struct {
	roundTrips prometheus.Observer
}

// NewMetrics registers the metrics. Most of them call tunnel at each scrape.
func NewMetrics(registry prometheus.Registerer, peer string, tunnel func() Tunnel) *Metrics {
	histogram := metrics.PeerLatencyHistogram.NewHistogram()
	registry.MustRegister(histogram, metrics.Computed(func(_ context.Context, emit metrics.Emit) {
		t := tunnel()
		t.emit(emit, peer, time.Now())
	}))
	return &Metrics{roundTrips: histogram.WithLabelValues(driverWireGuard, peer)}
}

// emit reports the metrics of the tunnel.
func (t *Tunnel) emit(emit metrics.Emit, peer string, now time.Time) {
	emit(metrics.PeerReceivedBytes, float64(t.Received), driverWireGuard, peer)
	emit(metrics.PeerTransmittedBytes, float64(t.Sent), driverWireGuard, peer)
	emit(metrics.PeerLatency, float64(t.PingStats.RTT.Microseconds()), driverWireGuard, peer)
	emit(metrics.PeerConnected, metrics.Bool(t.Connected), driverWireGuard, peer)
	emit(metrics.PeerPings, float64(t.PingStats.Pings), peer)
	emit(metrics.PeerPingAnswers, float64(t.PingStats.Pongs), peer)
	emit(metrics.GatewayActive, metrics.Bool(t.Active), peer)
	emit(metrics.GatewayTakeovers, float64(t.Takeovers), peer)
	if !t.Handshake.IsZero() {
		emit(metrics.PeerHandshakeAge, max(now.Sub(t.Handshake), 0).Seconds(), peer)
	}
	if t.Implementation != "" {
		emit(metrics.WireGuardImplementation, 1, driverWireGuard, string(t.Implementation))
	}
}

// ObserveRTT records the round-trip time of an answer through the tunnel.
func (m *Metrics) ObserveRTT(rtt time.Duration) { m.roundTrips.Observe(float64(rtt.Microseconds())) }
