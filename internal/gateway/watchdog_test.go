package gateway

import (
	"context"
	"testing"
	"time"
)

// TestHungTunnelEnds: the process of a tunnel that does not respond exits, and Kubernetes restarts it. A tunnel that responds keeps running.
func TestHungTunnelEnds(t *testing.T) {
	asked := make(chan struct{}, 1000)
	hang := make(chan struct{})
	defer close(hang)
	ended := make(chan error, 1)
	go func() {
		ended <- watch(t.Context(), time.Millisecond, 50*time.Millisecond, func() {
			if asked <- struct{}{}; len(asked) == 3 {
				<-hang
			}
		})
	}()
	if err := <-ended; err == nil || len(asked) != 3 {
		t.Errorf("ended with %v after %d questions, want an error after the third", err, len(asked))
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- watch(ctx, time.Millisecond, time.Minute, func() { asked <- struct{}{} })
	}()
	eventually(t, "questions", func() bool { return len(asked) > 5 })
	stop()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v, and everything was answered", err)
	}
}
