package dashboard

import "time"

// HistoryLength is the number of measurements that a history keeps.
const HistoryLength = 60

// TrafficAge is the time during which a measurement of traffic counts as current.
const TrafficAge = 30 * time.Second

// Point is one measurement.
type Point struct {
	// At is in seconds since 1970.
	At int64 `json:"at"`
	// Value is in seconds for a round trip, and in bytes per second for traffic.
	Value float64 `json:"value"`
}

// Series are measurements in the order of time.
type Series []Point

// With returns the series with one more measurement. A measurement that is not newer than the last one changes nothing. Beyond HistoryLength
// the oldest is dropped.
func (s Series) With(p Point) Series {
	if len(s) > 0 && p.At <= s[len(s)-1].At {
		return s
	}
	from := max(0, len(s)+1-HistoryLength)
	return append(append(make(Series, 0, len(s)-from+1), s[from:]...), p)
}

// last returns the newest measurement, or nil if there is none.
func (s Series) last() *float64 {
	if len(s) == 0 {
		return nil
	}
	return &s[len(s)-1].Value
}

// Current reports whether the newest measurement is current: it was made at most TrafficAge ago.
func (s Series) Current(now time.Time) bool {
	return len(s) > 0 && now.Sub(time.Unix(s[len(s)-1].At, 0)) <= TrafficAge
}

// current returns the newest measurement, or nil if it is not current.
func (s Series) current(now time.Time) *float64 {
	if !s.Current(now) {
		return nil
	}
	return s.last()
}

// History has the measurements at one end of a tunnel.
type History struct {
	// RoundTrip is in seconds. Sent and Received are in bytes per second.
	RoundTrip, Sent, Received Series
	// Unmeasured is the reason why the traffic is unknown. It is empty if the traffic is known.
	Unmeasured string
}

// Counters are the numbers of bytes that a gateway pod has counted since it started.
type Counters struct {
	// Pod is the UID of the gateway pod. Each pod has counters of its own.
	Pod            string
	At             time.Time
	Sent, Received float64
}

// Traffic returns the bytes per second between two readings of the counters. ok is false if the readings cannot be compared: they are from
// different pods, the pod has restarted, or no time has passed.
func Traffic(before, after Counters) (sent, received float64, ok bool) {
	seconds := after.At.Sub(before.At).Seconds()
	if before.Pod != after.Pod || seconds <= 0 || after.Sent < before.Sent || after.Received < before.Received {
		return 0, 0, false
	}
	return (after.Sent - before.Sent) / seconds, (after.Received - before.Received) / seconds, true
}
