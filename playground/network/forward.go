package network

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"time"
)

// dialers is the number of connections that can be in the process of being established at the same time.
const dialers = 4

type request struct {
	address string
	result  chan net.Conn
}

// Forward accepts connections on the listener in the caller's network namespace and forwards each to the address inside the "internet".
// It returns nil when the context ends, or an error if the listener fails.
func (i Internet) Forward(ctx context.Context, listener net.Listener, address string, log *slog.Logger) error {
	requests := make(chan request)
	for range dialers {
		ready := make(chan error)
		go i.dial(ctx, requests, ready, log)
		if err := <-ready; err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		outer, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accepting on %s: %w", listener.Addr(), err)
		}
		go func() {
			r := request{address, make(chan net.Conn, 1)}
			requests <- r
			inner := <-r.result
			if inner == nil {
				_ = outer.Close()
				return
			}
			join(outer.(*net.TCPConn), inner.(*net.TCPConn))
		}()
	}
}

// dial establishes connections from one thread inside the "internet". A socket stays in the network namespace in which it was created.
func (i Internet) dial(ctx context.Context, requests <-chan request, ready chan<- error, log *slog.Logger) {
	runtime.LockOSThread()
	if err := i.enter(); err != nil {
		ready <- err
		return
	}
	ready <- nil
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-requests:
			// The address is an IPv4 literal, so no resolver runs and the socket is created on this thread.
			conn, err := net.DialTimeout("tcp4", r.address, 5*time.Second)
			if err != nil {
				log.Warn("cannot connect", "address", r.address, "error", err)
			}
			r.result <- conn
		}
	}
}

func join(a, b *net.TCPConn) {
	done := make(chan struct{}, 2)
	pass := func(to, from *net.TCPConn) {
		_, _ = io.Copy(to, from) // either side may close the connection at any time; that is not an error
		_ = to.CloseWrite()
		done <- struct{}{}
	}
	go pass(a, b)
	go pass(b, a)
	<-done
	<-done
	_ = a.Close()
	_ = b.Close()
}
