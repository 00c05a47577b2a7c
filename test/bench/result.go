package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"liqo.io/liqo/test/playground"
)

// Kind is where the pods of a run were made.
type Kind string

// The two kinds of runs.
const (
	Direct    Kind = "direct"
	Offloaded Kind = "offloaded"
)

// What we promise.
const (
	ratioTarget  = 1.3
	writesTarget = 5.0
)

// Result is everything that was measured.
type Result struct {
	Pods int   `json:"pods"`
	Runs []Run `json:"runs"`
	// Medians of the runs, in seconds, and their ratio.
	Direct    float64 `json:"directSeconds"`
	Offloaded float64 `json:"offloadedSeconds"`
	Ratio     float64 `json:"ratio"`
	// Writes of ours per pod from its creation to Ready: the median of the runs.
	ProviderWrites float64 `json:"providerWritesPerPod"`
	ConsumerWrites float64 `json:"consumerWritesPerPod"`
	// Writes per pod of its whole life, deletion included.
	ProviderLife float64 `json:"providerWritesPerPodLife"`
	ConsumerLife float64 `json:"consumerWritesPerPodLife"`
	// Reached tells whether both targets were.
	Reached bool `json:"reached"`
}

// Run is one Deployment, from its creation until nothing is left of it.
type Run struct {
	Kind Kind `json:"kind"`
	Pods int  `json:"pods"`
	// Seconds until all pods were Ready, as the cluster of the Deployment saw it; DeleteSeconds until all were gone everywhere.
	Seconds       float64 `json:"seconds"`
	DeleteSeconds float64 `json:"deleteSeconds"`
	// Idle is the share of the machine that was idle before.
	Idle float64 `json:"idleBefore"`
	// MachineCPU is how many seconds all programs of the machine used until the pods were Ready.
	MachineCPU float64 `json:"machineCPUSeconds"`
	// ClusterCPU is what the programs of the two clusters used of that and until a little later, by cluster and program.
	ClusterCPU map[string]float64 `json:"clusterCPUSeconds"`
	// Usage of our processes: CPU from the creation to a little after the last pod was Ready, memory at that time.
	Usage    map[string]playground.Usage `json:"usage"`
	Provider Writes                      `json:"providerWrites"`
	Consumer Writes                      `json:"consumerWrites"`
	// Bytes went between the clusters, both ways, outside the tunnel, until a little after the last pod was Ready; 0 if nobody counted.
	Bytes uint64 `json:"bytes,omitempty"`

	began, settled, deleted, ended time.Time
}

// Writes counts our requests to an API server that change something, by what and who.
type Writes struct {
	Start  map[string]int `json:"start"`
	Delete map[string]int `json:"delete"`
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
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

// of collects one number of all runs of a kind.
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
	r.ProviderWrites = r.of(Offloaded, func(run Run) float64 { return float64(sum(run.Provider.Start)) / pods })
	r.ConsumerWrites = r.of(Offloaded, func(run Run) float64 { return float64(sum(run.Consumer.Start)) / pods })
	r.ProviderLife = r.of(Offloaded, func(run Run) float64 { return float64(sum(run.Provider.Start)+sum(run.Provider.Delete)) / pods })
	r.ConsumerLife = r.of(Offloaded, func(run Run) float64 { return float64(sum(run.Consumer.Start)+sum(run.Consumer.Delete)) / pods })
	r.Reached = r.Ratio <= ratioTarget && r.ProviderWrites <= writesTarget
}

// print writes a table for people.
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
