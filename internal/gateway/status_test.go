package gateway

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network"
)

func TestConnectionStatus(t *testing.T) {
	status := networkingv1beta1.ConnectionStatus{}
	seen := Observation{Now: noon, Began: noon, MTU: 1340, Peer: "milan", Interval: 10 * time.Second}
	step := func(after time.Duration, works bool, rtt time.Duration) (changed bool) {
		t.Helper()
		seen.Now = seen.Now.Add(after)
		seen.Works = works
		if works {
			seen.PingStats.Last, seen.PingStats.RTT = seen.Now, rtt
		}
		next := Status(status, 1, seen)
		changed = !equal(status, next)
		status = next
		if len(status.Conditions) != 1 || (status.Conditions[0].Status == metav1.ConditionTrue) != (status.Value == networkingv1beta1.Connected) {
			t.Errorf("value %s and conditions %+v", status.Value, status.Conditions)
		}
		return changed
	}
	is := func(value, latency string) {
		t.Helper()
		got := ""
		if status.Latency != nil {
			got = status.Latency.Value
		}
		if status.Value != value || got != latency || status.MTU != 1340 {
			t.Errorf("it says %s, %q, %d, want %s, %q", status.Value, got, status.MTU, value, latency)
		}
	}
	step(0, false, 0)
	is(networkingv1beta1.Connecting, "")
	if step(time.Hour, false, 0) {
		t.Error("waiting takes writes")
	}
	step(time.Second, true, 12345*time.Microsecond)
	is(networkingv1beta1.Connected, "12.35ms")
	for range 60 {
		if step(time.Second, true, 13*time.Millisecond) && seen.Now.Sub(status.Latency.Timestamp.Time) > 0 {
			t.Error("a latency that is much the same takes writes")
		}
	}
	if step(time.Second, true, 13*time.Millisecond); status.Latency.Value != "13ms" {
		t.Errorf("a latency that was told a minute ago is told again; it is %s", status.Latency.Value)
	}
	if step(time.Second, true, 90*time.Millisecond) {
		t.Error("the latency is told more often than the interval allows")
	}
	step(10*time.Second, true, 90*time.Millisecond)
	is(networkingv1beta1.Connected, "90ms")
	if step(2*time.Second, false, 0) {
		t.Error("a short silence, in which a client dials again, takes writes")
	}
	step(time.Second, false, 0)
	is(networkingv1beta1.ConnectionError, "90ms")
	step(time.Minute, true, 90*time.Millisecond)
	is(networkingv1beta1.Connected, "90ms")

	// A restarted agent does not report a tunnel as broken before its first ping.
	seen.Began, seen.PingStats = seen.Now, PingStats{}
	if step(2*time.Second, false, 0) {
		t.Error("an agent that just began calls the tunnel broken")
	}
	step(2*time.Second, false, 0)
	is(networkingv1beta1.ConnectionError, "90ms")
}

// TestConnectionStatusNamesARefusedAddress: while the peer does not answer, the condition says which of its addresses is not dialed, and why.
func TestConnectionStatusNamesARefusedAddress(t *testing.T) {
	seen := Observation{Now: noon, Began: noon, Peer: "milan", Refused: `address "gateway.example.org" of its gateway is refused: 127.0.0.1`}
	says := func() bool {
		return strings.Contains(Status(networkingv1beta1.ConnectionStatus{}, 1, seen).Conditions[0].Message, seen.Refused)
	}
	if !says() {
		t.Error("the condition does not name the refused address")
	}
	if seen.Works = true; says() {
		t.Error("the tunnel works through another address, and the condition complains")
	}
}

func equal(a, b networkingv1beta1.ConnectionStatus) bool {
	same := a.Value == b.Value && a.MTU == b.MTU && len(a.Conditions) == len(b.Conditions) && (a.Latency == nil) == (b.Latency == nil)
	return same && (a.Latency == nil || *a.Latency == *b.Latency)
}

func TestWhichReplicaWritesTheConnection(t *testing.T) {
	fresh, old := noon, noon.Add(-time.Minute)
	heard := func(state network.State, at time.Time) network.ProbeResult {
		return network.ProbeResult{Answer: network.Answer{State: state}, At: at}
	}
	for name, c := range map[string]struct {
		state    network.State
		siblings map[string]network.ProbeResult
		want     bool
	}{
		"alone":                             {network.Standby, nil, true},
		"at work":                           {network.Active, map[string]network.ProbeResult{"a": heard(network.Active, fresh)}, true},
		"another one is at work":            {network.Standby, map[string]network.ProbeResult{"z": heard(network.Active, fresh)}, false},
		"another one was at work":           {network.Standby, map[string]network.ProbeResult{"z": heard(network.Active, old)}, true},
		"nobody is at work, first by name":  {network.Dialing, map[string]network.ProbeResult{"z": heard(network.Standby, fresh)}, true},
		"nobody is at work, second by name": {network.Dialing, map[string]network.ProbeResult{"a": heard(network.Standby, fresh)}, false},
		"the first by name does not answer": {network.Standby, map[string]network.ProbeResult{"a": {}, "z": heard(network.Standby, fresh)}, true},
		"the first by name answers no more": {network.Standby, map[string]network.ProbeResult{"a": heard(network.Standby, old)}, true},
		"the last by name is, unlike the others": {network.Standby, map[string]network.ProbeResult{
			"n": heard(network.Standby, fresh), "z": heard(network.Active, fresh)}, false},
	} {
		if got := WritesConnection("m", c.state, c.siblings, timing, noon); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
