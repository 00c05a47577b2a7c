// Package keep keeps a program running inside a container.
//
// Kubernetes starts a container that ends again, too, but calls its pod not ready meanwhile, whatever else runs there. kube-proxy then forgets the
// UDP connections that lead to the pod (it does so for every endpoint that is not serving, also where a Service publishes those that are not
// ready), the tunnel's of a gateway among them: the peer's next packet may come to another replica, which knows nothing of the session. The
// tunnel does not depend on the agent beside it, so neither must the pod's being ready.
//
// It is a program of its own because it is there for each replica of each gateway: it holds 3 MiB, and the agent's program ten times that.
package keep

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

// How long Running waits before it starts a program again: firstRest when it has run for longer than lastRest, twice as long after each end that
// comes sooner, at most lastRest.
const (
	firstRest = 50 * time.Millisecond
	lastRest  = 10 * time.Second
)

// graceful is how long a program that was told to end may take: less than the pod has.
const graceful = 12 * time.Second

// Running runs a program until ctx ends, and starts it again whenever it ends by itself.
func Running(ctx context.Context, program []string, log *slog.Logger) error {
	if len(program) == 0 {
		return errors.New("keeping a program running: none is named")
	}
	for rest := firstRest; ; {
		began := time.Now()
		err := once(ctx, program)
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

// once runs it once. When ctx ends it is told to end; how it does is for itself to tell.
func once(ctx context.Context, program []string) error {
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
