package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// The promised limits at scale. Ratios are relative to the Deployment in both clusters (Both), latencies in milliseconds, memory in MiB.
const (
	scaleRatioTarget    = 1.5
	scaleProviderTarget = 3.0
	scaleConsumerTarget = 4.0
	quietTarget         = 50.0
	busyTarget          = 250.0
	controlPlaneTarget  = 100.0
)

// The limits for the whole installation of a consumer with one peer and 100 offloaded pods: cores and Mbit/s to the other API server, on average from the creation of
// the pods until all are Ready, and MiB (200 MB) of memory.
const (
	footprintPods   = 100
	coresTarget     = 0.5
	footprintTarget = 200e6 / (1 << 20)
	bandwidthTarget = 5.0
)

// kubeletTargets are the limits for the memory of a virtual kubelet in MiB, by the number of pods.
var kubeletTargets = map[int]float64{1000: 90, 5000: 200}

// The names of Liqo's processes in reports.
const (
	consumerManager = "controller-manager of rome"
	providerManager = "controller-manager of milan"
	virtualKubelet  = "virtual-kubelet in rome"
)

// ScaleResult is the result of scaleBench.
type ScaleResult struct {
	Runs      []Run     `json:"runs"`
	Latencies []Latency `json:"latencies"`
	Lines     []Line    `json:"lines"`
	Reached   bool      `json:"reached"`
}

// Line is one figure with its target: the maximum, or 0 if there is no target.
type Line struct {
	What    string  `json:"what"`
	Figure  float64 `json:"figure"`
	Target  float64 `json:"target,omitempty"`
	Problem string  `json:"problem,omitempty"`
}

// reached reports whether the figure, rounded as it is printed, is within its target. So a single periodic write among the writes of a thousand pods
// does not count.
func (l Line) reached() bool {
	return l.Problem == "" && (l.Target == 0 || math.Round(100*l.Figure) <= math.Round(100*l.Target))
}

// of returns the median of a number over the runs of a kind and size.
func (r *ScaleResult) of(kind Kind, pods int, number func(Run) float64) float64 {
	var values []float64
	for _, run := range r.Runs {
		if run.Kind == kind && run.Pods == pods {
			values = append(values, number(run))
		}
	}
	return median(values)
}

func (r *ScaleResult) conclude() {
	add := func(figure, target float64, what string, args ...any) {
		r.Lines = append(r.Lines, Line{What: fmt.Sprintf(what, args...), Figure: figure, Target: target})
	}
	var sizes []int
	for _, run := range r.Runs {
		if run.Kind == Direct && !slices.Contains(sizes, run.Pods) { // this is the last run of a round
			sizes = append(sizes, run.Pods)
		}
	}
	seconds := func(run Run) float64 { return run.Seconds }
	cpu := func(run Run) (sum float64) {
		for _, seconds := range run.ClusterCPU {
			sum += seconds
		}
		return sum
	}
	for _, pods := range sizes {
		ratio, provider, consumer := scaleRatioTarget, scaleProviderTarget, scaleConsumerTarget
		if pods < objects { // periodic writes would distort the result for few pods
			ratio, provider, consumer = 0, 0, 0
		}
		offloaded, both, alone := r.of(Offloaded, pods, seconds), r.of(Both, pods, seconds), r.of(Direct, pods, seconds)
		add(offloaded, 0, "%d pods: seconds until Ready, offloaded", pods)
		add(both, 0, "%d pods: seconds until Ready, directly in both", pods)
		least := r.of(Least, pods, seconds)
		add(least, 0, "%d pods: seconds until Ready, carried over by a bare program", pods)
		written := r.of(Written, pods, seconds)
		add(written, 0, "%d pods: seconds until Ready, carried over with the writes of the contract", pods)
		add(alone, 0, "%d pods: seconds until Ready, directly in the provider alone", pods)
		offloadedWork, bothWork, writtenWork := r.of(Offloaded, pods, work), r.of(Both, pods, work), r.of(Written, pods, work)
		add(offloadedWork/bothWork, ratio, "%d pods: offloaded to directly in both, at the same speed of the machine", pods)
		add(offloadedWork/writtenWork, 0, "%d pods: offloaded to the writes of the contract alone, at the same speed of the machine", pods)
		add(offloaded/both, 0, "%d pods: offloaded to directly in both", pods)
		add(least/both, 0, "%d pods: a bare program to directly in both", pods)
		add(written/both, 0, "%d pods: the writes of the contract alone to directly in both", pods)
		add(offloaded/written, 0, "%d pods: offloaded to the writes of the contract alone", pods)
		add(offloaded/alone, 0, "%d pods: offloaded to the provider alone", pods)
		add(r.of(Offloaded, pods, cpu)/r.of(Both, pods, cpu), 0, "%d pods: CPU of the clusters, offloaded to directly in both", pods)
		per := func(number func(Run) float64) float64 { return r.of(Offloaded, pods, number) / float64(pods) }
		add(per(func(run Run) float64 { return float64(forPods(run.Provider.Start)) }), provider, "%d pods: our writes on the provider, per pod", pods)
		add(per(func(run Run) float64 { return float64(forPods(run.Consumer.Start)) }), consumer, "%d pods: our writes on the consumer, per pod", pods)
		add(per(func(run Run) float64 { return float64(run.Bytes) / 1024 }), 0, "%d pods: KiB between the clusters, per pod", pods)
		for _, process := range []string{virtualKubelet, consumerManager, providerManager} {
			add(1000*per(func(run Run) float64 { return run.Usage[process].CPU }), 0, "%d pods: CPU ms per pod, %s", pods, process)
		}
		for _, process := range []string{virtualKubelet, consumerManager, providerManager} {
			memory := r.of(Offloaded, pods, func(run Run) float64 { return mebibytes(run.Usage[process].Resident) })
			target := 0.0
			if process == virtualKubelet {
				target = kubeletTargets[pods]
			}
			add(memory, target, "%d pods: MiB, %s", pods, process)
		}
		if pods == footprintPods {
			burst := func(number func(Run) float64) float64 { return r.of(Offloaded, pods, number) }
			add(burst(func(run Run) float64 { return run.Footprint.CPU / run.Seconds }), coresTarget, "%d pods: cores until Ready, all of Liqo in rome", pods)
			add(burst(func(run Run) float64 { return mebibytes(run.Footprint.Resident) }), footprintTarget, "%d pods: MiB, all of Liqo in rome", pods)
			add(burst(func(run Run) float64 { return float64(run.Bytes) * 8 / 1e6 / run.Seconds }), bandwidthTarget, "%d pods: Mbit/s until Ready, to the other API server", pods)
			add(r.of(Offloaded, pods, func(run Run) float64 {
				return mebibytes(run.Usage[virtualKubelet].Resident + run.Usage[consumerManager].Resident)
			}), controlPlaneTarget, "%d pods: MiB, controller manager and virtual kubelet of rome", pods)
		}
	}
	for _, l := range r.Latencies {
		line := Line{What: fmt.Sprintf("p99 in ms of a %s, quiet (median %.0f)", l.Kind, l.P50), Figure: l.P99, Target: quietTarget, Problem: l.Problem}
		if l.PerSecond > 0 {
			line.What, line.Target = fmt.Sprintf("p99 in ms of a %s at %d changes a second (median %.0f)", l.Kind, l.PerSecond, l.P50), busyTarget
		}
		if l.Without {
			line.Target = 0
		}
		r.Lines = append(r.Lines, line)
	}
	r.Reached = !slices.ContainsFunc(r.Lines, func(l Line) bool { return !l.reached() })
}

func mebibytes(bytes uint64) float64 { return float64(bytes) / (1 << 20) }

// print prints tables with the result.
func (r *ScaleResult) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "PODS\tKIND\tREADY s\tPROBE ms\tGONE s\tMACHINE CPU s\tIDLE BEFORE")
	for _, run := range r.Runs {
		fmt.Fprintf(table, "%d\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f %%\n", run.Pods, run.Kind, run.Seconds, run.Probe, run.DeleteSeconds, run.MachineCPU, 100*run.Idle)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	r.printCPU(table)
	r.printLatencyCPU(table)
	if run := r.last(Offloaded); run != nil {
		fmt.Fprintf(table, "\nWRITES, LAST OFFLOADED RUN\tUNTIL READY\tDELETION\n")
		for _, side := range []struct {
			where  string
			writes Writes
		}{{"provider", run.Provider}, {"consumer", run.Consumer}} {
			names := map[string]bool{}
			for _, counts := range []map[string]int{side.writes.Start, side.writes.Delete} {
				for name := range counts {
					names[name] = true
				}
			}
			for _, name := range slices.Sorted(maps.Keys(names)) {
				fmt.Fprintf(table, "%s: %s\t%d\t%d\n", side.where, name, side.writes.Start[name], side.writes.Delete[name])
			}
		}
	}
	r.printOthers(table)
	fmt.Fprintf(table, "\nFIGURE\tMEASURED\tTARGET\t\n")
	for _, l := range r.Lines {
		switch {
		case l.Problem != "":
			fmt.Fprintf(table, "%s\t-\t<= %g\tMISSED: %s\n", l.What, l.Target, l.Problem)
		case l.Target == 0:
			fmt.Fprintf(table, "%s\t%.2f\t\t\n", l.What, l.Figure)
		default:
			fmt.Fprintf(table, "%s\t%.2f\t<= %g\t%s\n", l.What, l.Figure, l.Target, verdict(l.reached()))
		}
	}
	return table.Flush()
}

// printOthers prints what Kubernetes wrote in the last runs, in each cluster, and leaves out operations that were rare.
func (r *ScaleResult) printOthers(table io.Writer) {
	offloaded, both := r.last(Offloaded), r.last(Both)
	if offloaded == nil || both == nil {
		return
	}
	fmt.Fprintf(table, "\nWRITES OF KUBERNETES UNTIL READY, LAST RUNS\tOFFLOADED\tDIRECTLY\n")
	for _, cluster := range []struct {
		name             string
		offloaded, alone map[string]int
	}{{"provider", offloaded.Provider.Others, both.Provider.Others}, {"consumer", offloaded.Consumer.Others, both.Consumer.Others}} {
		for _, name := range slices.Sorted(maps.Keys(cluster.offloaded)) {
			if n := cluster.offloaded[name]; n >= offloaded.Pods/10 {
				fmt.Fprintf(table, "%s: %s\t%d\t%d\n", cluster.name, name, n, cluster.alone[name])
			}
		}
	}
}

// last returns the last run of a kind; nil if there is none.
func (r *ScaleResult) last(kind Kind) *Run {
	for i := range slices.Backward(r.Runs) {
		if r.Runs[i].Kind == kind {
			return &r.Runs[i]
		}
	}
	return nil
}

// printCPU prints the CPU time of the last runs by program.
func (r *ScaleResult) printCPU(table io.Writer) {
	offloaded := r.last(Offloaded)
	if offloaded == nil {
		return
	}
	fmt.Fprintf(table, "\nCPU ms PER POD, %d PODS", offloaded.Pods)
	runs := []*Run{offloaded}
	for _, kind := range []Kind{Both, Least, Written} {
		for i := range slices.Backward(r.Runs) {
			if run := &r.Runs[i]; run.Kind == kind && run.Pods == offloaded.Pods {
				runs = append(runs, run)
				break
			}
		}
	}
	for _, run := range runs {
		fmt.Fprintf(table, "\t%s", strings.ToUpper(string(run.Kind)))
	}
	fmt.Fprintln(table)
	for _, name := range slices.Sorted(maps.Keys(offloaded.ClusterCPU)) {
		line, most := name, 0.0
		for _, run := range runs {
			each := 1000 * run.ClusterCPU[name] / float64(run.Pods)
			line += fmt.Sprintf("\t%.1f", each)
			most = max(most, each)
		}
		if most >= 0.1 {
			fmt.Fprintln(table, line)
		}
	}
}

// printLatencyCPU prints the CPU time per change by program, and the load of the machine.
func (r *ScaleResult) printLatencyCPU(table io.Writer) {
	for _, l := range r.Latencies {
		if l.PerSecond == 0 || l.ClusterCPU == nil {
			continue
		}
		fmt.Fprintf(table, "\nCPU ms PER CHANGE OF A %s\tMACHINE %.0f %% BUSY\n", strings.ToUpper(l.Kind), 100*l.Busy)
		for _, name := range slices.Sorted(maps.Keys(l.ClusterCPU)) {
			if cpu := l.ClusterCPU[name]; cpu >= 0.1 {
				fmt.Fprintf(table, "%s\t%.1f\n", name, cpu)
			}
		}
	}
}
