package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// How long Keep waits before it starts a program again: firstRest when it has run for longer than lastRest, twice as long after each end that
// comes sooner, at most lastRest.
const (
	firstRest = 50 * time.Millisecond
	lastRest  = 10 * time.Second
)

// graceful is how long a program that was told to end may take: less than the pod has.
const graceful = 12 * time.Second

// Keep runs a program until ctx ends, and starts it again whenever it ends by itself.
//
// Kubernetes would do that too, but a container that ends makes its pod not ready for a moment, whatever else runs there, and kube-proxy
// then forgets the UDP connections that lead to the pod, the tunnel's among them: the peer's next packet may come to another replica, which
// knows nothing of the session. The tunnel does not depend on the agent, so neither must the pod's being ready.
func Keep(ctx context.Context, program []string, log *slog.Logger) error {
	if len(program) == 0 {
		return errors.New("keeping a program running: none is named")
	}
	for rest := firstRest; ; {
		began := time.Now()
		err := keepOnce(ctx, program)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > lastRest {
			rest = firstRest
		}
		log.Error("Program ended and is started again", "program", program[0], "after", time.Since(began).String(), "rest", rest.String(), "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rest):
		}
		rest = min(2*rest, lastRest)
	}
}

// keepOnce runs it once. When ctx ends it is told to end; how it does is for itself to tell.
func keepOnce(ctx context.Context, program []string) error {
	cmd := exec.CommandContext(ctx, program[0], program[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = graceful
	err := cmd.Run()
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("running %s: %w", program[0], err)
}
