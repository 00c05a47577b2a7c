package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// The first line that a client sends on a connection selects the service.
const (
	wantSource = "source" // followed by a number: bytes per second to send without end; 0 means as fast as possible
	wantEcho   = "echo"   // the server sends every byte back
)

// beat is the sending interval of a stream with a limited rate.
const beat = 10 * time.Millisecond

// chunk is the number of bytes sent or received per system call. It is large enough to keep the overhead per call low.
const chunk = 256 << 10

// stream serves connections until the listener is closed.
func stream(ctx context.Context, listener net.Listener) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = conn.Close() }()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			// Ignore the error, because the client measures how a connection ends.
			_ = serveStream(ctx, conn)
		}()
	}
}

func serveStream(ctx context.Context, conn net.Conn) error {
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err != nil {
		return err
	}
	if strings.TrimSpace(line) == wantEcho {
		_, err := io.Copy(conn, reader)
		return err
	}
	var rate int64
	if _, err := fmt.Sscanf(line, wantSource+" %d", &rate); err != nil || rate < 0 {
		return fmt.Errorf("reading what the client wants: %q: %w", line, err)
	}
	if rate == 0 {
		return flood(conn)
	}
	return pace(ctx, conn, rate)
}

func flood(conn net.Conn) error {
	data := make([]byte, chunk)
	for {
		if _, err := conn.Write(data); err != nil {
			return err
		}
	}
}

// pace sends rate bytes per second. After a delay, it does not catch up, because the rate is a limit for every moment and not an average.
func pace(ctx context.Context, conn net.Conn, rate int64) error {
	data := make([]byte, max(1, rate*int64(beat)/int64(time.Second)))
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		if _, err := conn.Write(data); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// bounce sends every datagram back unchanged until the connection is closed.
func bounce(conn net.PacketConn) error {
	buffer := make([]byte, 65536)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			continue // an ICMP error caused by an earlier response
		}
		_, _ = conn.WriteTo(buffer[:n], from) // ignore the error, because the client measures lost responses
	}
}
