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

// The first line of a connection says what the client wants of it.
const (
	wantSource = "source" // followed by a number: bytes per second without end, 0 for as many as the path takes
	wantEcho   = "echo"   // every byte comes back
)

// beat is how often a paced source sends.
const beat = 10 * time.Millisecond

// chunk is how much is sent and received at once: large enough that the calls cost little.
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
			// How a connection ends is what the client measures.
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

// pace sends rate bytes a second. What could not be sent in time is not made up for: the stream has a speed, not a schedule.
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

// bounce sends every datagram back as it came until the connection is closed.
func bounce(conn net.PacketConn) error {
	buffer := make([]byte, 65536)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			continue // an ICMP error about an earlier answer
		}
		_, _ = conn.WriteTo(buffer[:n], from) // a lost answer is what the client measures
	}
}
