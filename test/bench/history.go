package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"
)

const (
	// recent is the number of earlier runs with which a run is compared.
	recent = 3
	// noticeable is the change of a ratio that is reported. Medians of runs on one machine differ by less.
	noticeable = 0.1
)

// Record is a line of the history: the ratios of a run by their names. A higher ratio is worse.
type Record struct {
	Commit string             `json:"commit"`
	Date   string             `json:"date"`
	Ratios map[string]float64 `json:"ratios"`
}

// results are the results of the measurements that were made; the others are nil.
type results struct {
	Pods    *Result        `json:"pods,omitempty"`
	Scale   *ScaleResult   `json:"scale,omitempty"`
	Network *NetworkResult `json:"network,omitempty"`
	Move    *MoveResult    `json:"move,omitempty"`
	Claim   *ClaimResult   `json:"claim,omitempty"`
	Guards  *GuardsResult  `json:"guards,omitempty"`
}

// ratios returns the ratios to which the targets of pods, the network and moves apply, if they are medians of several runs. Ratios are comparable between machines, unlike times.
func (r results) ratios() map[string]float64 {
	all := map[string]float64{}
	if r.Pods != nil {
		all[fmt.Sprintf("%d real pods: offloaded to direct", r.Pods.Pods)] = r.Pods.Ratio
	}
	if r.Scale != nil {
		for _, run := range r.Scale.Runs {
			// The ratio of single runs differs by more.
			if run.Kind == Offloaded && r.Scale.count(Offloaded, run.Pods) > 1 && r.Scale.count(Both, run.Pods) > 1 {
				all[fmt.Sprintf("%d pods: offloaded to both clusters directly", run.Pods)] = r.Scale.of(Offloaded, run.Pods, work) / r.Scale.of(Both, run.Pods, work)
			}
		}
	}
	if r.Network != nil {
		for path, bases := range r.Network.Ratios {
			if ratio, has := bases[Bare]; has && path != Bare && ratio.Throughput > 0 {
				all[fmt.Sprintf("throughput: bare tunnel to %s", path)] = 1 / ratio.Throughput
				all[fmt.Sprintf("round trip: %s to bare tunnel", path)] = ratio.TCP
			}
		}
	}
	if r.Move != nil {
		for _, m := range r.Move.Moves {
			if m.Ratio > 0 {
				all["volume of "+m.Shape+": stream to move"] = 1 / m.Ratio
			}
		}
	}
	return all
}

// count returns the number of runs of a kind and size.
func (r *ScaleResult) count(kind Kind, pods int) (n int) {
	for _, run := range r.Runs {
		if run.Kind == kind && run.Pods == pods {
			n++
		}
	}
	return n
}

// work returns the time until all pods of a run were Ready, in computations of speedProbe: at the same speed of the machine. Runs without a probe count in seconds.
func work(run Run) float64 {
	if run.Probe == 0 {
		return run.Seconds
	}
	return 1000 * run.Seconds / run.Probe
}

// worse returns a line for each ratio that is worse than the median of the last three runs that have it by more than a tenth.
func worse(history []Record, now map[string]float64) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		var before []float64
		for _, record := range slices.Backward(history) {
			if ratio, has := record.Ratios[name]; has && len(before) < recent {
				before = append(before, ratio)
			}
		}
		if len(before) < recent {
			continue
		}
		if usual := median(before); now[name] > usual*(1+noticeable) {
			lines = append(lines, fmt.Sprintf("%s: %.2f, and %.2f in the last %d runs", name, now[name], usual, recent))
		}
	}
	return lines
}

// readHistory reads the records of a file with one record on each line. A file that does not exist has none.
func readHistory(path string) (history []Record, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(data) {
		var record Record
		if err := json.Unmarshal(line, &record); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(history)+1, err)
		}
		history = append(history, record)
	}
	return history, nil
}

// compare prints which ratios are worse than before, and reports whether none is. It appends the ratios to the history as those of a commit, unless commit is empty.
func (r results) compare(path, commit string) (bool, error) {
	history, err := readHistory(path)
	if err != nil {
		return false, fmt.Errorf("reading the history: %w", err)
	}
	now := r.ratios()
	lines := worse(history, now)
	for _, line := range lines {
		fmt.Println("WORSE", line)
	}
	if commit == "" || len(now) == 0 {
		return len(lines) == 0, nil
	}
	data, err := json.Marshal(Record{Commit: commit, Date: time.Now().UTC().Format(time.DateOnly), Ratios: now})
	if err != nil {
		return false, err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return false, err
	}
	_, err = file.Write(append(data, '\n'))
	return len(lines) == 0, errors.Join(err, file.Close())
}
