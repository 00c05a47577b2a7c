package gateway

import (
	"testing"

	"liqo.io/liqo/internal/dataplane"
)

// TestMeterNeverDecreases: a new session, a new key, an unreadable device or a restarted agent makes no total jump or decrease.
func TestMeterNeverDecreases(t *testing.T) {
	old, renewed := dataplane.PublicKey{1}, dataplane.PublicKey{2}
	var m Meter
	for _, step := range []struct {
		what           string
		peers          []DevicePeer
		received, sent int64
	}{
		{"an agent that restarts", []DevicePeer{{Key: old, Received: 1000, Sent: 500}}, 0, 0},
		{"traffic", []DevicePeer{{Key: old, Received: 1300, Sent: 600}}, 300, 100},
		{"WireGuard cannot be read", nil, 300, 100},
		{"it can be read again", []DevicePeer{{Key: old, Received: 1400, Sent: 600}}, 400, 100},
		{"a new session", []DevicePeer{{Key: old, Received: 50, Sent: 10}}, 450, 110},
		{"a new key beside the old one", []DevicePeer{{Key: old, Received: 60, Sent: 10}, {Key: renewed, Received: 7, Sent: 3}}, 467, 113},
		{"the new key alone", []DevicePeer{{Key: renewed, Received: 9, Sent: 3}}, 469, 113},
	} {
		m.Observe(Device{Peers: step.peers})
		if received, sent := m.Totals(); received != step.received || sent != step.sent {
			t.Errorf("%s: %d received and %d sent, want %d and %d", step.what, received, sent, step.received, step.sent)
		}
	}
}
