package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// Path is the kind of connection between the two ends of a measurement.
type Path string

// The paths.
const (
	// Overlapping and Apart connect pods of two clusters through Liqo's network. The clusters have the same address ranges, or different ones.
	Overlapping Path = "overlapping"
	Apart       Path = "apart"
	// Bare is a WireGuard tunnel of the same implementation between the same nodes, and nothing else.
	Bare Path = "bare tunnel"
	// Forwarded connects the pods of Overlapping through the bare tunnel, with only routes in between.
	Forwarded Path = "forwarded"
	// Straight connects two nodes directly.
	Straight Path = "direct"
)

// The promised limits, relative to the bare tunnel.
const (
	throughputTarget = 0.85
	latencyTarget    = 1.5
	memoryTarget     = 40 << 20
)

// Figure is one measurement of a path. Round trips are medians in microseconds; TCP99 is the 99th percentile.
type Figure struct {
	Path          Path    `json:"path"`
	BitsPerSecond float64 `json:"bitsPerSecond"`
	TCP           float64 `json:"tcpMicroseconds"`
	TCP99         float64 `json:"tcp99Microseconds"`
	UDP           float64 `json:"udpMicroseconds"`
	// Stall is the longest stall of the stream, in milliseconds. CPUPerGigabyte is the CPU time, in seconds, that all programs and the kernel used
	// for a gigabyte of the stream. Idle is the idle share of the machine before the measurement.
	Stall          float64 `json:"longestStallMilliseconds"`
	CPUPerGigabyte float64 `json:"cpuSecondsPerGigabyte"`
	Idle           float64 `json:"idleBefore"`
}

// NetworkResult is the result of networkBench.
type NetworkResult struct {
	// Implementation is the implementation of WireGuard in use.
	Implementation string   `json:"implementation"`
	Figures        []Figure `json:"figures"`
	// Medians are the medians of the figures, by path. Ratios compare each path between pods with the forwarded path, the bare tunnel and the direct
	// path.
	Medians map[Path]Figure          `json:"medians"`
	Ratios  map[Path]map[Path]Ratios `json:"ratios"`
	// Memory is the resident memory of Liqo's containers in rome, in bytes.
	Memory map[string]uint64 `json:"residentBytes"`
	Sizes  []Size            `json:"sizes"`
	// Reached reports whether all targets were reached.
	Reached bool `json:"reached"`
}

// Ratios compares the figures of two paths.
type Ratios struct {
	Throughput float64 `json:"throughput"`
	TCP        float64 `json:"tcp"`
	UDP        float64 `json:"udp"`
}

func (r *NetworkResult) conclude() {
	r.Medians, r.Ratios = map[Path]Figure{}, map[Path]map[Path]Ratios{}
	for _, p := range []Path{Overlapping, Apart, Forwarded, Bare, Straight} {
		of := func(number func(Figure) float64) float64 {
			var values []float64
			for _, f := range r.Figures {
				if f.Path == p {
					values = append(values, number(f))
				}
			}
			return median(values)
		}
		r.Medians[p] = Figure{
			Path:          p,
			BitsPerSecond: of(func(f Figure) float64 { return f.BitsPerSecond }),
			TCP:           of(func(f Figure) float64 { return f.TCP }), TCP99: of(func(f Figure) float64 { return f.TCP99 }),
			UDP:   of(func(f Figure) float64 { return f.UDP }),
			Stall: of(func(f Figure) float64 { return f.Stall }), CPUPerGigabyte: of(func(f Figure) float64 { return f.CPUPerGigabyte }),
			Idle: of(func(f Figure) float64 { return f.Idle }),
		}
	}
	r.Reached = r.Memory["gateway"] <= memoryTarget && r.Memory["fabric"] <= memoryTarget
	for _, p := range []Path{Overlapping, Apart, Forwarded} {
		r.Ratios[p] = map[Path]Ratios{}
		for _, base := range []Path{Forwarded, Bare, Straight} {
			a, b := r.Medians[p], r.Medians[base]
			r.Ratios[p][base] = Ratios{a.BitsPerSecond / b.BitsPerSecond, a.TCP / b.TCP, a.UDP / b.UDP}
		}
	}
	for _, p := range []Path{Overlapping, Apart} {
		r.Reached = r.Reached && r.Ratios[p][Bare].Throughput >= throughputTarget && r.Ratios[p][Bare].TCP <= latencyTarget && r.Ratios[p][Bare].UDP <= latencyTarget
	}
}

// print writes tables for people.
func (r *NetworkResult) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "PATH (WireGuard: %s)\tGbit/s\tTCP µs\tp99\tUDP µs\tSTALL ms\tCPU s/GB\tIDLE BEFORE\n", r.Implementation)
	line := func(f Figure) {
		fmt.Fprintf(table, "%s\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.0f %%\n", f.Path, f.BitsPerSecond/1e9, f.TCP, f.TCP99, f.UDP, f.Stall, f.CPUPerGigabyte, 100*f.Idle)
	}
	for _, f := range r.Figures {
		line(f)
	}
	fmt.Fprint(table, "\t\t\t\t\t\t\t\nMEDIANS\t\t\t\t\t\t\t\n")
	for _, p := range []Path{Overlapping, Apart, Forwarded, Bare, Straight} {
		line(r.Medians[p])
	}
	fmt.Fprint(table, "\t\t\t\t\t\t\t\nRATIO\tTHROUGHPUT\tTCP\tUDP\tTARGETS\t\t\t\n")
	for _, base := range []Path{Bare, Forwarded, Straight} {
		for _, p := range []Path{Overlapping, Apart, Forwarded} {
			if p == base {
				continue
			}
			ratio := r.Ratios[p][base]
			targets := ""
			if base == Bare && p != Forwarded {
				targets = fmt.Sprintf(">= %.2f %s, <= %.1f %s", throughputTarget, verdict(ratio.Throughput >= throughputTarget),
					latencyTarget, verdict(ratio.TCP <= latencyTarget && ratio.UDP <= latencyTarget))
			}
			fmt.Fprintf(table, "%s to %s\t%.2f\t%.2f\t%.2f\t%s\t\t\t\n", p, base, ratio.Throughput, ratio.TCP, ratio.UDP, targets)
		}
	}
	fmt.Fprint(table, "\t\t\t\t\t\t\t\nMEMORY\tMiB\t\t\t\t\t\t\n")
	for _, name := range slices.Sorted(maps.Keys(r.Memory)) {
		target := ""
		if name != "wireguard" {
			target = fmt.Sprintf("<= %d %s", memoryTarget>>20, verdict(r.Memory[name] <= memoryTarget))
		}
		fmt.Fprintf(table, "%s\t%.0f\t%s\t\t\t\t\t\n", name, float64(r.Memory[name])/(1<<20), target)
	}
	fmt.Fprint(table, "\t\t\t\t\t\t\t\nPEERS\tNODES\tPODS\tGATEWAY: ROUTES\tRULES\tMAP ENTRIES\tNODE: ROUTES\tRULES\n")
	for _, s := range r.Sizes {
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", s.Peers, s.Nodes, s.Pods, s.GatewayRoutes, s.GatewayRules, s.GatewayEntries, s.NodeRoutes, s.NodeRules)
	}
	return table.Flush()
}
