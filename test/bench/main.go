// Command bench measures the performance that Liqo promises, on real clusters of this machine. It has several measurements:
//   - how much longer 50 pods take to start on a virtual node than directly in the provider, how many writes each pod causes, and the resource usage of
//     Liqo;
//   - the same for thousands of pods on fake nodes, and how long changes take to reach the other cluster;
//   - the network path between pods of two clusters, compared with a bare tunnel and with a path without a tunnel;
//   - the rate at which a volume moves from one cluster to the other;
//   - how long a pod with a new claim takes to start;
//   - with -only guards, what each admission policy and mutating webhook of Liqo costs the writes for an offloaded pod.
//
// It needs root. "make bench" builds the programs and runs it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	os.Exit(command())
}

func command() int {
	log.SetLogger(logr.Discard()) // discard the logs of client libraries: errors contain everything that matters
	var b bench
	var n networkBench
	var m moveBench
	var v claimBench
	s := scaleBench{sizes: []int{100, objects, 5 * objects}}
	var g guardsBench
	check := flag.Bool("check", false, "exit with 1 when a target is missed, or a ratio is worse than before")
	file := flag.String("json", "", "write the result to this file instead of printing it after the tables")
	only := flag.String("only", "", "measure only this: pods, scale, network, move, claim or guards")
	history := flag.String("history", "test/bench/ratios.jsonl", "the ratios of earlier runs, one on each line: a run that is worse than the last three by a tenth says so")
	commit := flag.String("record", "", "append the ratios of this run to the history, as those of this commit")
	flag.IntVar(&b.pods, "pods", 50, "pods in the Deployment")
	flag.IntVar(&b.runs, "runs", 3, "runs of each kind, of which the median counts; guards are measured once")
	flag.DurationVar(&b.patience, "patience", 2*time.Minute, "how long a run waits for a quiet machine")
	flag.BoolVar(&s.latency, "latencies", true, "measure how long changes take, with about 1,000 pods")
	flag.Func("sizes", "numbers of pods at scale, separated by commas (default 100,1000,5000)", func(list string) error {
		s.sizes = nil
		for text := range strings.SplitSeq(list, ",") {
			size, err := strconv.Atoi(text)
			if err != nil || size < 1 {
				return fmt.Errorf("%q is not a number of pods", text)
			}
			s.sizes = append(s.sizes, size)
		}
		return nil
	})
	flag.Parse()
	v.patience = b.patience
	n.runs, s.runs, s.patience = b.runs, b.runs, b.patience
	g.bench = b
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	var result results
	reached := true
	var err error
	if *only == "" || *only == "pods" {
		if result.Pods, err = b.run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench: measuring pods:", err)
			return 1
		}
		err = result.Pods.print(os.Stdout)
		reached = result.Pods.Reached
	}
	if *only == "" || *only == "scale" {
		if result.Scale, err = s.run(ctx); result.Scale != nil {
			err = errors.Join(err, result.Scale.print(os.Stdout))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: measuring at scale:", err)
			return 1
		}
		reached = reached && result.Scale.Reached
	}
	if *only == "" || *only == "network" {
		if result.Network, err = n.run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench: measuring the network:", err)
			return 1
		}
		err = errors.Join(err, result.Network.print(os.Stdout))
		reached = reached && result.Network.Reached
	}
	if *only == "" || *only == "move" {
		if result.Move, err = m.run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench: measuring moves of volumes:", err)
			return 1
		}
		err = errors.Join(err, result.Move.print(os.Stdout))
		reached = reached && result.Move.Reached
	}
	if *only == "" || *only == "claim" {
		if result.Claim, err = v.run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench: measuring claims:", err)
			return 1
		}
		err = errors.Join(err, result.Claim.print(os.Stdout))
		reached = reached && result.Claim.Reached
	}
	if *only == "guards" {
		if result.Guards, err = g.run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench: measuring guards:", err)
			return 1
		}
		err = errors.Join(err, result.Guards.print(os.Stdout))
	}
	unchanged, comparing := result.compare(*history, *commit)
	err = errors.Join(err, comparing)
	reached = reached && unchanged
	data, encoding := json.Marshal(result)
	if err = errors.Join(err, encoding); err == nil && *file != "" {
		err = os.WriteFile(*file, append(data, '\n'), 0o644)
	} else if err == nil {
		fmt.Println(string(data))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: writing the result:", err)
		return 1
	}
	if *check && !reached {
		return 1
	}
	return 0
}
