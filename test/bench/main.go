// Command bench measures what we promise, on real clusters of this machine, side by side in one run: how much longer 50 pods take on a
// virtual node than directly in the cluster behind it, how many writes each costs there, and what our processes use; the same for thousands
// of pods on nodes that do not exist, with how long changes take to the other cluster; and what the path between pods of two clusters is of a bare tunnel, and of a path without one.
// It needs root, and "make build" before; "make bench" does both.
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
	log.SetLogger(logr.Discard()) // of clients; what is to be told is in errors
	var b bench
	var n networkBench
	s := scaleBench{sizes: []int{100, objects, 5 * objects}}
	check := flag.Bool("check", false, "exit with 1 when a target is missed")
	file := flag.String("json", "", "write the result to this file instead of printing it after the tables")
	only := flag.String("only", "", "measure only this: pods, scale or network")
	flag.IntVar(&b.pods, "pods", 50, "pods in the Deployment")
	flag.IntVar(&b.runs, "runs", 3, "runs of each kind, of which the median counts")
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
	n.runs, s.runs, s.patience = b.runs, b.runs, b.patience
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	var result struct {
		Pods    *Result        `json:"pods,omitempty"`
		Scale   *ScaleResult   `json:"scale,omitempty"`
		Network *NetworkResult `json:"network,omitempty"`
	}
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
