package gateway

import "liqo.io/liqo/internal/dataplane"

// Meter adds up the bytes that went through the tunnel since its first observation. WireGuard has separate counters for each peer entry, and
// creates a new entry, with counters at 0, for a new key or session. The sums of a Meter never decrease. The zero value is ready for use.
type Meter struct {
	last           map[dataplane.PublicKey]DevicePeer
	received, sent int64
}

// Observe adds the traffic since the previous observation. The first observation adds nothing, because its bytes are from before the Meter. A known
// entry that is missing in d adds nothing: it was removed, or WireGuard could not be read.
func (m *Meter) Observe(d Device) {
	first := m.last == nil
	if first {
		m.last = map[dataplane.PublicKey]DevicePeer{}
	}
	for _, now := range d.Peers {
		before := m.last[now.Key]
		m.last[now.Key] = now
		if !first {
			m.received += grown(before.Received, now.Received)
			m.sent += grown(before.Sent, now.Sent)
		}
	}
}

// grown returns by how much a counter has grown. A counter that is smaller than before has started again at 0.
func grown(before, now int64) int64 {
	if now < before {
		return now
	}
	return now - before
}

// Totals returns the sums.
func (m *Meter) Totals() (received, sent int64) { return m.received, m.sent }
