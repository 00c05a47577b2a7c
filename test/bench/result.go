package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"text/tabwriter"
	"time"

	"liqo.io/liqo/test/playground"
)

// Kind is the way in which the pods of a run were created.
type Kind string

// The kinds of runs that every benchmark of pods has.
const (
	Direct    Kind = "direct"
	Offloaded Kind = "offloaded"
)

// The promised limits.
const (
	ratioTarget  = 1.3
	writesTarget = 5.0
)

// Result is the result of the benchmark of pods.
type Result struct {
	Pods int   `json:"pods"`
	Runs []Run `json:"runs"`
	// Direct and Offloaded are the medians of the runs in seconds; Ratio compares them.
	Direct    float64 `json:"directSeconds"`
	Offloaded float64 `json:"offloadedSeconds"`
	Ratio     float64 `json:"ratio"`
	// ProviderWrites is the number of Liqo's writes per pod from its creation until it is Ready: the median of the runs.
	ProviderWrites float64 `json:"providerWritesPerPod"`
	ConsumerWrites float64 `json:"consumerWritesPerPod"`
	// ProviderLife is the number of Liqo's writes per pod from its creation until it is deleted.
	ProviderLife float64 `json:"providerWritesPerPodLife"`
	ConsumerLife float64 `json:"consumerWritesPerPodLife"`
	// Reached reports whether both targets were reached.
	Reached bool `json:"reached"`
}

// Run is the measurement of one Deployment, from its creation until its last pod is deleted.
type Run struct {
	Kind Kind `json:"kind"`
	Pods int  `json:"pods"`
	// Seconds is the time until all pods were Ready, as the cluster of the Deployment observed it. DeleteSeconds is the time until all pods were
	// deleted in both clusters.
	Seconds       float64 `json:"seconds"`
	DeleteSeconds float64 `json:"deleteSeconds"`
	// Probe is the CPU time, in ms, of a fixed computation while the pods were created (speedProbe): runs are compared at the same speed of the machine.
	Probe float64 `json:"probeMilliseconds,omitempty"`
	// Idle is the idle share of the machine before the run.
	Idle float64 `json:"idleBefore"`
	// MachineCPU is the CPU time, in seconds, that all programs of the machine used until the pods were Ready.
	MachineCPU float64 `json:"machineCPUSeconds"`
	// ClusterCPU is the CPU time that the programs of the two clusters used until a moment later, by cluster and program.
	ClusterCPU map[string]float64 `json:"clusterCPUSeconds"`
	// Usage is the usage of Liqo's processes: the CPU time from the creation until shortly after the last pod was Ready, and the memory at that time.
	Usage map[string]playground.Usage `json:"usage"`
	// Footprint is the same for all pods of Liqo in rome together.
	Footprint playground.Usage `json:"footprint"`
	Provider  Writes           `json:"providerWrites"`
	Consumer  Writes           `json:"consumerWrites"`
	// Bytes is the traffic between the clusters outside the tunnel, in both directions, until shortly after the last pod was Ready; 0 if it was not
	// counted.
	Bytes uint64 `json:"bytes,omitempty"`

	began, settled, deleted, ended time.Time
}

// Writes counts Liqo's requests that change something in an API server, by operation and client.
type Writes struct {
	Start  map[string]int `json:"start"`
	Delete map[string]int `json:"delete"`
	// Others counts the requests of all other clients until the pods were Ready, by operation only: what Kubernetes itself writes because of the pods.
	Others map[string]int `json:"others,omitempty"`
}

// ofClusters are the resources whose writes depend on the time, not on the number of pods: the state of peers and nodes.
var ofClusters = regexp.MustCompile(`^\w+ (connections/status|foreignclusters/status|nodes/status|leases) by `)

// forPods returns the number of writes for pods. The key of counts is the description of a write.
func forPods(counts map[string]int) (n int) {
	for what, c := range counts {
		if !ofClusters.MatchString(what) {
			n += c
		}
	}
	return n
}

func median(values []float64) float64 {
	slices.Sort(values)
	if n := len(values); n%2 == 0 {
		return (values[n/2-1] + values[n/2]) / 2
	}
	return values[len(values)/2]
}

// of returns one number of each run of a kind.
func (r *Result) of(kind Kind, number func(Run) float64) float64 {
	var values []float64
	for _, run := range r.Runs {
		if run.Kind == kind {
			values = append(values, number(run))
		}
	}
	return median(values)
}

func (r *Result) conclude() {
	seconds := func(run Run) float64 { return run.Seconds }
	r.Direct, r.Offloaded = r.of(Direct, seconds), r.of(Offloaded, seconds)
	r.Ratio = r.Offloaded / r.Direct
	pods := float64(r.Pods)
	r.ProviderWrites = r.of(Offloaded, func(run Run) float64 { return float64(forPods(run.Provider.Start)) / pods })
	r.ConsumerWrites = r.of(Offloaded, func(run Run) float64 { return float64(forPods(run.Consumer.Start)) / pods })
	r.ProviderLife = r.of(Offloaded, func(run Run) float64 { return float64(forPods(run.Provider.Start)+forPods(run.Provider.Delete)) / pods })
	r.ConsumerLife = r.of(Offloaded, func(run Run) float64 { return float64(forPods(run.Consumer.Start)+forPods(run.Consumer.Delete)) / pods })
	r.Reached = r.Ratio <= ratioTarget && r.ProviderWrites <= writesTarget
}

// print prints tables with the result.
func (r *Result) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "%d PODS\tREADY s\tGONE s\tMACHINE CPU s\tIDLE BEFORE\n", r.Pods)
	for _, run := range r.Runs {
		fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%.2f\t%.0f %%\n", run.Kind, run.Seconds, run.DeleteSeconds, run.MachineCPU, 100*run.Idle)
	}
	fmt.Fprintf(table, "\t\t\t\t\nMEDIAN\tMEASURED\tTARGET\t\t\n")
	fmt.Fprintf(table, "seconds, direct\t%.2f\t\t\t\n", r.Direct)
	fmt.Fprintf(table, "seconds, offloaded\t%.2f\t\t\t\n", r.Offloaded)
	fmt.Fprintf(table, "ratio\t%.2f\t<= %.1f\t%s\t\n", r.Ratio, ratioTarget, verdict(r.Ratio <= ratioTarget))
	fmt.Fprintf(table, "our writes on the provider, per pod until Ready\t%.2f\t<= %.0f\t%s\t\n", r.ProviderWrites, writesTarget, verdict(r.ProviderWrites <= writesTarget))
	fmt.Fprintf(table, "the same for its whole life\t%.2f\t\t\t\n", r.ProviderLife)
	fmt.Fprintf(table, "our writes on the consumer, per pod until Ready\t%.2f\t\t\t\n", r.ConsumerWrites)
	fmt.Fprintf(table, "the same for its whole life\t%.2f\t\t\t\n", r.ConsumerLife)
	for _, run := range slices.Backward(r.Runs) {
		if run.Kind != Offloaded {
			continue
		}
		fmt.Fprintf(table, "\t\t\t\t\nLAST OFFLOADED RUN\tCPU s\tMEMORY MiB\t\t\n")
		for _, name := range slices.Sorted(maps.Keys(run.Usage)) {
			fmt.Fprintf(table, "%s\t%.2f\t%.0f\t\t\n", name, run.Usage[name].CPU, float64(run.Usage[name].Resident)/(1<<20))
		}
		list(table, "ON THE PROVIDER", run.Provider)
		list(table, "ON THE CONSUMER", run.Consumer)
		break
	}
	return table.Flush()
}

func list(out io.Writer, title string, w Writes) {
	fmt.Fprintf(out, "\t\t\t\t\nWRITES %s\tUNTIL READY\tDELETION\t\t\n", title)
	names := map[string]bool{}
	for name := range w.Start {
		names[name] = true
	}
	for name := range w.Delete {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(out, "%s\t%d\t%d\t\t\n", name, w.Start[name], w.Delete[name])
	}
}

func verdict(reached bool) string {
	if reached {
		return "ok"
	}
	return "MISSED"
}
