package gateway

import (
	"context"
	"fmt"
	"time"
)

const (
	// askInterval is the time between two health checks of WireGuard in user space. askPatience is the timeout of one check.
	askInterval = 5 * time.Second
	askPatience = 20 * time.Second
)

// watch calls ask, which may hang, at each interval until ctx ends. It returns an error when one call takes longer than patience.
// Then the process must be restarted, because a part that hangs may never release its locks and sockets.
func watch(ctx context.Context, interval, patience time.Duration, ask func()) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		answered := make(chan struct{})
		go func() {
			ask()
			close(answered)
		}()
		select {
		case <-ctx.Done():
			return nil
		case <-answered:
		case <-time.After(patience):
			return fmt.Errorf("asking WireGuard whether it lives: it did not answer within %s, which takes a new process", patience)
		}
	}
}
