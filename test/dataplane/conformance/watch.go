package conformance

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"liqo.io/liqo/internal/dataplane"
)

const (
	// soon is the longest time until a change must be reported. Usually it is reported much earlier.
	soon = 10 * time.Second
	// quiet is the time without a report after which the test takes all earlier changes as reported.
	quiet = 500 * time.Millisecond
)

// watched tests that Watch reports changes to the objects of the ownership, by any program, and no other changes.
func watched(t *testing.T, h Host) {
	ctx, cancel := context.WithCancel(context.Background())
	var calls atomic.Int32
	ended := make(chan error, 1)
	go func() { ended <- h.Watch(ctx, h.Own, func() { calls.Add(1) }) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	observed := func(within time.Duration) bool {
		for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if calls.Swap(0) > 0 {
				return true
			}
		}
		return false
	}
	expect := func(what any) {
		t.Helper()
		if !observed(soon) {
			t.Errorf("no event was reported for %v", what)
		}
	}
	expect("the beginning")
	state := h.overlay()
	state.Table = h.table("10.71.0.0/16").Table
	for _, c := range dataplane.Diff(dataplane.State{}, state, h.Own) {
		h.apply(t, c)
		expect(c)
	}
	for _, c := range dataplane.Diff(h.read(t), dataplane.State{Links: state.Links, Table: h.table().Table}, h.Own) {
		h.apply(t, c)
		expect(c)
	}
	h.SetDown(h.Own.Overlay)
	expect("a link that went down")
	h.AddTunnel()
	expect("the tunnel")
	h.RemoveLink(h.Own.Overlay)
	expect("a link that is gone")
	for observed(quiet) { // drain the remaining reports
	}
	theirs := h.vxlan()
	theirs.Name, theirs.VNI = "theirs", 1
	h.apply(t, dataplane.Change{Link: &theirs}, dataplane.Change{Table: &dataplane.Table{Name: "theirs"}})
	if observed(quiet) {
		t.Error("an event was reported for an object that Liqo does not own")
	}
}
