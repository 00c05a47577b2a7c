package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network"
)

const (
	// errorAfter is how long a tunnel that worked may be silent before its Connection reports an error. Dialing again takes less
	// time, so the Connection reports no error if a redial succeeds.
	errorAfter = 3 * time.Second
	// A replica writes even an unchanged latency again when its age is staleFactor times the update interval.
	staleFactor = 6
)

// Observation is what a replica observes of the tunnel at the time of a report.
type Observation struct {
	Now time.Time
	// Began is the start time of this agent.
	Began     time.Time
	PingStats PingStats
	// Works reports whether the peer answers pings in time.
	Works bool
	MTU   int
	// Peer is the ID of the other cluster. Refused says which address of the peer must not be dialed, and why. It is empty if there is none.
	Peer, Refused string
	// Interval is the minimum time between two updates of the latency.
	Interval time.Duration
}

// Status returns the new status of the Connection. The argument before is the current status. If no significant value has changed, Status returns it unchanged.
func Status(before networkingv1beta1.ConnectionStatus, generation int64, s Observation) networkingv1beta1.ConnectionStatus {
	after := *before.DeepCopy()
	silent := s.Now.Sub(latest(s.PingStats.Last, s.Began))
	switch {
	case s.Works:
		after.Value = networkingv1beta1.Connected
	case before.Value == "":
		after.Value = networkingv1beta1.Connecting
	case before.Value == networkingv1beta1.Connected && silent >= errorAfter:
		after.Value = networkingv1beta1.ConnectionError
	}
	if s.MTU > 0 {
		after.MTU = s.MTU
	}
	if s.Works && s.PingStats.RTT > 0 && mustWriteLatency(before.Latency, s) {
		after.Latency = &networkingv1beta1.ConnectionLatency{Value: rounded(s.PingStats.RTT).String(), Timestamp: metav1.NewTime(s.Now.Truncate(time.Second))}
	}
	condition := metav1.Condition{
		Type: networkingv1beta1.ConditionConnected, Status: metav1.ConditionFalse, Reason: after.Value, ObservedGeneration: generation,
		LastTransitionTime: metav1.NewTime(s.Now.Truncate(time.Second)),
	}
	switch after.Value {
	case networkingv1beta1.Connected:
		condition.Status = metav1.ConditionTrue
		condition.Message = fmt.Sprintf("cluster %s answers through the tunnel", s.Peer)
	case networkingv1beta1.ConnectionError:
		condition.Message = fmt.Sprintf("cluster %s does not answer through the tunnel any more", s.Peer)
	default:
		condition.Message = fmt.Sprintf("cluster %s has not answered through the tunnel yet", s.Peer)
	}
	if s.Refused != "" && after.Value != networkingv1beta1.Connected {
		condition.Message += ": " + s.Refused
	}
	meta.SetStatusCondition(&after.Conditions, condition)
	return after
}

// mustWriteLatency reports whether a latency must be written: it is the first one, it differs enough, or the written one is old.
func mustWriteLatency(before *networkingv1beta1.ConnectionLatency, s Observation) bool {
	if before == nil {
		return true
	}
	reported, err := time.ParseDuration(before.Value)
	age := s.Now.Sub(before.Timestamp.Time)
	if err != nil || age < 0 || age >= staleFactor*s.Interval {
		return true
	}
	return age >= s.Interval && (s.PingStats.RTT-reported).Abs() > max(reported/5, time.Millisecond)
}

// rounded keeps about three significant digits.
func rounded(d time.Duration) time.Duration {
	switch {
	case d >= 100*time.Millisecond:
		return d.Round(time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	default:
		return d.Round(time.Microsecond)
	}
}

// WritesConnection reports whether this replica writes the Connection. The active replica does. If no replica is active, the one whose name is first among
// those that answer does.
func WritesConnection(self string, state network.State, siblings map[string]network.ProbeResult, timing network.Timing, now time.Time) bool {
	if state == network.Active {
		return true
	}
	for _, name := range slices.Sorted(maps.Keys(siblings)) {
		h := siblings[name]
		if h.At.IsZero() || now.Sub(h.At) >= timing.Silence {
			continue
		}
		if h.State == network.Active || cmp.Less(name, self) {
			return false
		}
	}
	return true
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
