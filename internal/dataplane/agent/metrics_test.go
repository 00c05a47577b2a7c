package agent

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"liqo.io/liqo/internal/dataplane"
)

// TestDriftIsCounted: changes by others count as drift. Changes of the agent for a new wanted state do not, even if they fail at first.
func TestDriftIsCounted(t *testing.T) {
	h := onNode()
	m := NewMetrics(prometheus.NewPedanticRegistry())
	h.opts.Metrics = m
	expect := func(what string, applied, failed float64, drift bool) {
		t.Helper()
		if got := testutil.ToFloat64(m.applies.WithLabelValues(resultSuccess)); got != applied {
			t.Errorf("%s: %v changes succeeded, want %v", what, got, applied)
		}
		if got := testutil.ToFloat64(m.applies.WithLabelValues(resultError)); got != failed {
			t.Errorf("%s: %v changes failed, want %v", what, got, failed)
		}
		if got := testutil.ToFloat64(m.drift); got > 0 != drift {
			t.Errorf("%s: drift is %v", what, got)
		}
	}
	h.wants(nil, node(2))
	h.pass(t)
	expect("the first pass", 1, 0, false)
	h.pass(t)
	expect("a pass without news", 1, 0, false)
	h.wants(nil, node(3))
	changes := 0
	h.kernel.Fault(func(_ int, what string) error {
		if what != "read" {
			changes++
		}
		if changes > 1 {
			return errors.New("no buffer space available")
		}
		return nil
	})
	if h.Pass(t.Context()) == nil {
		t.Fatal("nothing was applied to the faulty kernel")
	}
	h.kernel.Fault(nil)
	h.wants(nil, node(2)) // the agent reverts its own partial changes, which is no drift
	h.pass(t)
	h.wants(nil, node(3))
	h.pass(t)
	if got := testutil.ToFloat64(m.drift); got > 0 {
		t.Errorf("the agent's own changes count as drift: %v", got)
	}
	h.kernel.RemoveLink(dataplane.OverlayLink)
	h.settled = nil // forces a read, as a notification of the kernel does
	h.pass(t)
	if got := testutil.ToFloat64(m.drift); got == 0 {
		t.Error("a removed link counts as no drift")
	}
	if got := testutil.ToFloat64(m.applies.WithLabelValues(resultError)); got != 1 {
		t.Errorf("%v changes failed, want 1", got)
	}
}
