package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestScaleTargets: a line misses its target if its figure is higher or missing, and in no other case.
func TestScaleTargets(t *testing.T) {
	run := func(kind Kind, seconds float64, writes int) Run {
		return Run{Kind: kind, Pods: 1000, Seconds: seconds, Consumer: Writes{Start: map[string]int{"create ips by us": writes}}}
	}
	result := &ScaleResult{
		Runs:      []Run{run(Both, 4, 0), run(Offloaded, 6, 4000), run(Least, 5, 0), run(Written, 5, 0), run(Direct, 3, 0)},
		Latencies: []Latency{{Kind: "Service", P99: 50}, {Kind: "Service", PerSecond: 100, P99: 250}},
	}
	if result.conclude(); !result.Reached {
		t.Errorf("all is as promised: %+v", result.Lines)
	}
	for _, spoil := range []func(){
		func() { result.Runs[1].Seconds = 6.1 },
		func() { result.Runs[1].Consumer.Start["create ips by us"] = 4010 },
		func() { result.Latencies[0].P99 = 51 },
		func() { result.Latencies[1].Problem = "not all changes arrived" },
	} {
		before := result.missed()
		spoil()
		result.Lines = nil
		result.conclude()
		if now := result.missed(); now != before+1 || result.Reached {
			t.Errorf("%d lines miss their target, want %d: %+v", now, before+1, result.Lines)
		}
	}
}

func (r *ScaleResult) missed() (n int) {
	var out bytes.Buffer
	if err := r.print(&out); err != nil {
		panic(err) // memory is always written
	}
	return strings.Count(out.String(), "MISSED")
}
