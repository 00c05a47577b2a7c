package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestHungTunnelEnds: the process of a tunnel that does not respond exits, and Kubernetes restarts it. A tunnel that responds keeps running.
func TestHungTunnelEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		hang := make(chan struct{})
		began := time.Now()
		err := watch(t.Context(), checkInterval, checkTimeout, func() {
			if asked++; asked == 3 {
				<-hang
			}
		})
		if took := time.Since(began); err == nil || asked != 3 || took != 3*checkInterval+checkTimeout {
			t.Errorf("ended with %v after %d questions and %s, want an error after the third and its timeout", err, asked, took)
		}
		close(hang)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- watch(ctx, checkInterval, checkTimeout, func() { asked++ })
		}()
		time.Sleep(10*checkInterval + checkInterval/2)
		stop()
		if err := <-ended; err != nil || asked != 13 {
			t.Errorf("ended with %v after %d more questions, and all ten were answered", err, asked-3)
		}
	})
}
