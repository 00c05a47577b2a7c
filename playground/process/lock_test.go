package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLock: only one process holds the lock. A waiting process learns which one holds it, and can give up.
func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), name, func(string) { t.Error("a free lock is waited for") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	told := 0
	held := fmt.Sprintf("process %d (%s", os.Getpid(), os.Args[0])
	if _, err := Lock(ctx, name, func(holder string) {
		if told++; !strings.HasPrefix(holder, held) {
			t.Errorf("held by %s, want %s ...", holder, held)
		}
		cancel()
	}); !errors.Is(err, context.Canceled) || told != 1 || !strings.Contains(err.Error(), held) {
		t.Errorf("told %d times, %v", told, err)
	}
	taken := make(chan error, 1)
	waits := make(chan struct{})
	go func() {
		unlock, err := Lock(t.Context(), name, func(string) { close(waits) })
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
