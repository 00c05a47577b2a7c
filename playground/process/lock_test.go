package process

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

// TestLock: one at a time, whoever waits is told, and can give up.
func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), name, func() { t.Error("a free lock is waited for") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	told := 0
	if _, err := Lock(ctx, name, func() { told++; cancel() }); !errors.Is(err, context.Canceled) || told != 1 {
		t.Errorf("told %d times, %v", told, err)
	}
	taken := make(chan error, 1)
	waits := make(chan struct{})
	go func() {
		unlock, err := Lock(t.Context(), name, func() { close(waits) })
		if err == nil {
			unlock()
		}
		taken <- err
	}()
	<-waits
	unlock()
	if err := <-taken; err != nil {
		t.Error(err)
	}
}
