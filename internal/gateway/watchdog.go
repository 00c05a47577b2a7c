package gateway

import (
	"context"
	"fmt"
	"time"
)

const (
	// askInterval is how often WireGuard in user space is asked whether it lives, askPatience how long it may take to answer.
	askInterval = 5 * time.Second
	askPatience = 20 * time.Second
)

// watch asks something that may hang until ctx ends. It returns an error when one answer takes longer than patience: then only a new process
// helps, since nothing of the old one can be trusted to let go of what it holds.
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
