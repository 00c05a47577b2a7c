package network

import (
	"testing"
	"time"

	"liqo.io/liqo/test/playground"
)

// TestAllowedStall: only what a machine does without a fault makes it more.
func TestAllowedStall(t *testing.T) {
	fault := time.Now()
	stall := func(at time.Duration, milliseconds float64) playground.Stall {
		return playground.Stall{At: fault.Add(at), Milliseconds: milliseconds}
	}
	for _, test := range []struct {
		stalls []playground.Stall
		want   time.Duration
	}{
		{nil, 200 * time.Millisecond},
		{[]playground.Stall{stall(time.Second, 900)}, 200 * time.Millisecond},
		{[]playground.Stall{stall(-time.Second, 99)}, 200 * time.Millisecond},
		{[]playground.Stall{stall(-2*time.Second, 100), stall(-time.Second, 150), stall(time.Second, 900)}, 500 * time.Millisecond},
	} {
		if got := allowed(200*time.Millisecond, test.stalls, fault); got != test.want {
			t.Errorf("%v: %v, want %v", test.stalls, got, test.want)
		}
	}
	if got := allowed(time.Minute, []playground.Stall{stall(-time.Second, 500)}, time.Time{}); got != time.Minute {
		t.Errorf("without a fault: %v", got)
	}
}
