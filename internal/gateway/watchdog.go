package gateway

import (
	"context"
	"fmt"
	"time"
)

const (
	// checkInterval is the time between two health checks of WireGuard in user space. checkTimeout is the timeout of one check.
	checkInterval = 5 * time.Second
	checkTimeout  = 20 * time.Second
)

// watch calls check, which may hang, at each interval until ctx ends. It returns an error when one call takes longer than timeout.
// Then the process must be restarted, because a part that hangs may never release its locks and sockets.
func watch(ctx context.Context, interval, timeout time.Duration, check func()) error {
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
			check()
			close(answered)
		}()
		select {
		case <-ctx.Done():
			return nil
		case <-answered:
		case <-time.After(timeout):
			return fmt.Errorf("checking whether WireGuard responds: no answer within %s, so its process must be restarted", timeout)
		}
	}
}
