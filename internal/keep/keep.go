// Package keep supervises a program inside a container: it restarts the program whenever it ends.
//
// Kubernetes also restarts a container that ends, but meanwhile the whole pod is not ready. kube-proxy then drops the UDP
// connections to the pod. (It does so for every endpoint that is not serving, even if the Service publishes endpoints that are
// not ready.) Among them is the tunnel of a gateway: the next packet of the peer may reach another replica, which does not have
// the session. The tunnel does not depend on the agent in the other container, so the readiness of the pod must not depend on it
// either.
//
// It is a separate program because it runs in each replica of each gateway: it uses 3 MiB of memory, the program of the agent ten
// times as much.
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

// The delay before Running restarts a program: firstRest if the program ran for longer than lastRest. After each shorter run, the
// delay doubles, up to lastRest.
const (
	firstRest = 50 * time.Millisecond
	lastRest  = 10 * time.Second
)

// graceful is how long a program may take to end after SIGTERM. It is shorter than the grace period of the pod.
const graceful = 12 * time.Second

// Running runs a program until ctx ends, and restarts it whenever it ends by itself.
func Running(ctx context.Context, program []string, log *slog.Logger) error {
	if len(program) == 0 {
		return errors.New("supervising a program: no program is given")
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
		log.Error("The program ended: restarting it", "program", program[0], "after", time.Since(began).String(), "delay", rest.String(), "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rest):
		}
		rest = min(2*rest, lastRest)
	}
}

// once runs the program once. When ctx ends, it sends SIGTERM to the program, and ignores how the program ends.
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
