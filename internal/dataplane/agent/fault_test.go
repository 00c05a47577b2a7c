package agent

import (
	"errors"
	"testing"

	"liqo.io/liqo/internal/dataplane"
)

// TestRestartAfterAFault: whatever a failed agent left half done, the next agent reads it and reaches the wanted state.
func TestRestartAfterAFault(t *testing.T) {
	for _, worlds := range [][2]dataplane.State{{node(1), node(3)}, {node(3), {}}} {
		for at, failed := 1, true; failed; at++ {
			h := onNode()
			h.wants(nil, worlds[0])
			h.pass(t)
			before := h.kernel.Calls()
			h.kernel.Fault(func(call int, _ string) error {
				if call == before+at {
					return errors.New("no buffer space available")
				}
				return nil
			})
			h.wants(nil, worlds[1])
			failed = h.Pass(t.Context()) != nil
			h.kernel.Fault(nil)
			next := newHost(h.kernel, h.own)
			next.wants(nil, worlds[1])
			next.pass(t)
			next.has(t, worlds[1])
		}
	}
}
