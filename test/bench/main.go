// Command bench measures what we promise, on two real clusters of this machine, side by side in one run: how much longer 50 pods take
// on a virtual node than directly in the cluster behind it, how many writes each costs there, and what our processes use.
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
	check := flag.Bool("check", false, "exit with 1 when a target is missed")
	file := flag.String("json", "", "write the result to this file instead of printing it after the table")
	flag.IntVar(&b.pods, "pods", 50, "pods in the Deployment")
	flag.IntVar(&b.runs, "runs", 3, "runs of each kind, of which the median counts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	result, err := b.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	err = result.print(os.Stdout)
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
	if *check && !result.Reached {
		return 1
	}
	return 0
}
