package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"liqo.io/liqo/internal/cli/session"
)

// TestExecHasATimeout: a server that accepts the connection and sends nothing does not delay a check beyond its timeout.
func TestExecHasATimeout(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(stop)
	c := &session.Cluster{ID: "milan", Config: &rest.Config{Host: server.URL}}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := Run(ctx, c, "ns", "pod", "true")
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "pod pod of cluster milan") {
			t.Errorf("error %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the time is over, and it goes on")
	}
}

// TestSlowCommandsEnd: a peer that sends a byte of a command's output now and then cannot delay liqoctl beyond the time limit of a command, even if
// the caller has more time.
func TestSlowCommandsEnd(t *testing.T) {
	slow := execServer(t, func(ctx context.Context, streams *execStreams) {
		for {
			if _, err := streams.out.Write([]byte("x")); err != nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	slow.CommandLimit = time.Second // enough to open the stream on a busy machine
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := Run(ctx, slow, "ns", "pod", "probe"); out != "" || !errors.Is(err, errTooSlow) {
		t.Errorf("%q, %v", out, err)
	}
}

// TestOutputOfACommandIsBounded: a program in a pod that writes without end does not fill the memory of the administrator's machine.
func TestOutputOfACommandIsBounded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	short := execServer(t, func(_ context.Context, streams *execStreams) {
		_, _ = streams.out.Write([]byte("[]"))
		streams.succeed()
	})
	if out, err := Run(ctx, short, "ns", "pod", "probe"); out != "[]" || err != nil {
		t.Errorf("a short output: %q, %v", out, err)
	}
	endless := execServer(t, func(_ context.Context, streams *execStreams) {
		for err := error(nil); err == nil; {
			_, err = streams.out.Write(bytes.Repeat([]byte("x"), 1<<16))
		}
	})
	out, err := Run(ctx, endless, "ns", "pod", "probe")
	if out != "" || !errors.Is(err, errTooLong) || !strings.Contains(err.Error(), "running probe in pod pod of cluster milan: its output is longer than 4 MiB") {
		t.Errorf("an endless output: %d bytes, %v", len(out), err)
	}
	failing := execServer(t, func(_ context.Context, streams *execStreams) {
		for range 100 {
			_, _ = streams.problem.Write(bytes.Repeat([]byte("y"), 1<<10))
		}
		streams.fail()
	})
	if _, err = Run(ctx, failing, "ns", "pod", "probe"); err == nil || len(err.Error()) > maxProblem+500 || !strings.HasSuffix(err.Error(), "yyy...") {
		t.Errorf("a long problem: %d bytes, %.300v", len(fmt.Sprint(err)), err)
	}
}
