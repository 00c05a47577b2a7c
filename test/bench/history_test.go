package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWorseRatiosAreReported: a ratio that is more than a tenth above the median of the last three runs is reported, with its name and both figures. Older runs, and runs
// without that ratio, do not count.
func TestWorseRatiosAreReported(t *testing.T) {
	run := func(ratio float64) Record { return Record{Ratios: map[string]float64{"pods": ratio}} }
	history := []Record{run(9), run(2), run(2.2), {Ratios: map[string]float64{"network": 1}}, run(1.8)}
	for ratio, want := range map[float64]string{1: "", 2.2: "", 2.3: "pods: 2.30, and 2.00 in the last 3 runs"} {
		if got := strings.Join(worse(history, map[string]float64{"pods": ratio, "network": 9}), "\n"); got != want {
			t.Errorf("%g: %q, want %q", ratio, got, want)
		}
	}
}

// TestHistory: each recorded run is one line, with the ratios of what it measured. A run that is not recorded changes nothing.
func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ratios.jsonl")
	scale := func(seconds float64) results {
		return results{Scale: &ScaleResult{Runs: []Run{
			{Kind: Both, Pods: 100, Seconds: 2}, {Kind: Offloaded, Pods: 100, Seconds: seconds}, {Kind: Both, Pods: 100, Seconds: 2}, {Kind: Offloaded, Pods: 100, Seconds: seconds},
			{Kind: Both, Pods: 1000, Seconds: 9}, {Kind: Offloaded, Pods: 1000, Seconds: 9},
		}}}
	}
	for i := range recent {
		if fine, err := scale(4).compare(path, "abc"); !fine || err != nil {
			t.Fatalf("run %d: %t, %v", i, fine, err)
		}
	}
	if fine, err := scale(6).compare(path, ""); fine || err != nil {
		t.Errorf("a slower run: %t, %v", fine, err)
	}
	history, err := readHistory(path)
	if err != nil || len(history) != recent || len(history[0].Ratios) != 1 || history[0].Ratios["100 pods: offloaded to both clusters directly"] != 2 || history[0].Commit != "abc" {
		t.Errorf("%+v, %v", history, err)
	}
	if err := os.WriteFile(path, []byte("{}\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := scale(4).compare(path, "abc"); err == nil || !strings.Contains(err.Error(), "ratios.jsonl, line 2") {
		t.Errorf("an invalid file: %v", err)
	}
}
