// Command bench measures what we promise, on real clusters of this machine, side by side in one run: how much longer 50 pods take on a
// virtual node than directly in the cluster behind it, how many writes each costs there, and what our processes use; and what the path
// between pods of two clusters is of a bare tunnel, and of a path without one.
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
	"syscall"
)

func main() {
	os.Exit(command())
}

func command() int {
	var b bench
	var n networkBench
	check := flag.Bool("check", false, "exit with 1 when a target is missed")
	file := flag.String("json", "", "write the result to this file instead of printing it after the tables")
	only := flag.String("only", "", "measure only this: pods or network")
	flag.IntVar(&b.pods, "pods", 50, "pods in the Deployment")
	flag.IntVar(&b.runs, "runs", 3, "runs of each kind, of which the median counts")
	flag.Parse()
	n.runs = b.runs
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	var result struct {
		Pods    *Result        `json:"pods,omitempty"`
		Network *NetworkResult `json:"network,omitempty"`
	}
	reached := true
	var err error
	if *only != "network" {
		if result.Pods, err = b.run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench: measuring pods:", err)
			return 1
		}
		err = result.Pods.print(os.Stdout)
		reached = result.Pods.Reached
	}
	if *only != "pods" {
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
