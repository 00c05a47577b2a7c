// Command volume-mover copies the volume that its pod mounts to a repository, or from there. liqoctl move volume runs it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"liqo.io/liqo/internal/storage/mover"
)

// terminationLog is the file whose content Kubernetes shows in the status of the pod.
const terminationLog = "/dev/termination-log"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	program := &mover.Program{Restic: "/restic", Out: os.Stdout, Err: os.Stderr, State: "/tmp"}
	if len(os.Args) == 2 { // this mode runs as a second process in a pod; its exit code is not the result of the pod
		if err := program.Control(ctx, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "volume-mover:", err)
			stop()
			os.Exit(1) //nolint:gocritic // stop was called
		}
		return
	}
	result, err := program.Run(ctx, os.Args[1:])
	report := mover.Report(result, err)
	if problem := os.WriteFile(terminationLog, []byte(report), 0o600); problem != nil && err == nil {
		err = fmt.Errorf("writing the result: %w", problem)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "volume-mover:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}
