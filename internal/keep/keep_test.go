package keep

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestProgramIsRestarted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Running(ctx, []string{"sh", "-c", `echo $$ >> "$0"; exec sleep 1000`, file}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	}()
	started := func(times int) int {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			text, _ := os.ReadFile(file)
			if pids := strings.Fields(string(text)); len(pids) == times && strings.HasSuffix(string(text), "\n") {
				pid, err := strconv.Atoi(pids[times-1])
				if err != nil {
					t.Fatal(err)
				}
				return pid
			}
		}
		t.Fatalf("the program was not started %d times", times)
		return 0
	}
	for i := 1; i <= 3; i++ {
		if err := syscall.Kill(started(i), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	last := started(4)
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it did not end")
	}
	if err := syscall.Kill(last, 0); err == nil {
		t.Errorf("process %d is left", last)
	}
}

func TestNoProgramIsAnError(t *testing.T) {
	if err := Running(t.Context(), nil, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("that was no program")
	}
}
