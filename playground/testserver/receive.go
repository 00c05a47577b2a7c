package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// stall is a period in which no data arrived.
type stall struct {
	// At is the end of the stall: the time when data arrived again or the measurement ended.
	At           time.Time `json:"at"`
	Milliseconds float64   `json:"milliseconds"`
}

// reception is the result of receiving a stream.
type reception struct {
	Bytes         int64   `json:"bytes"`
	Seconds       float64 `json:"seconds"`
	BitsPerSecond float64 `json:"bitsPerSecond"`
	// Longest is the longest time between two reads that returned data. It includes the times before the first and after the last read.
	Longest float64 `json:"longestStallMilliseconds"`
	// Stalls are the stalls that lasted at least the threshold, in order of time.
	Stalls []stall `json:"stalls"`
	// Breaks are the errors that ended a connection early, such as a reset.
	Breaks []string `json:"breaks"`
}

// meter measures received data. It uses monotonic times.
type meter struct {
	reception
	threshold   time.Duration
	began, last time.Time
}

func newMeter(threshold time.Duration, now time.Time) *meter {
	// Use empty lists, so that the JSON contains [] instead of null and its readers can count the entries.
	return &meter{reception: reception{Stalls: []stall{}, Breaks: []string{}}, threshold: threshold, began: now, last: now}
}

func (m *meter) read(n int, now time.Time) {
	m.gap(now)
	m.Bytes += int64(n)
	m.last = now
}

func (m *meter) gap(now time.Time) {
	gap := now.Sub(m.last)
	milliseconds := float64(gap) / float64(time.Millisecond)
	m.Longest = max(m.Longest, milliseconds)
	if gap >= m.threshold {
		m.Stalls = append(m.Stalls, stall{At: now, Milliseconds: milliseconds})
	}
}

func (m *meter) end(now time.Time) reception {
	m.gap(now)
	m.Seconds = now.Sub(m.began).Seconds()
	if m.Seconds > 0 {
		m.BitsPerSecond = float64(m.Bytes) * 8 / m.Seconds
	}
	return m.reception
}

// receive reads a stream until its duration ends or a signal arrives, and prints the measurement. It records each broken connection. With
// -reconnect, it then connects again; otherwise, it stops. A broken connection is not an error of the command, because the result shows it.
func receive(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("stream", flag.ContinueOnError)
	duration := flags.Duration("for", 10*time.Second, "how long; 0 until SIGTERM")
	rate := flags.Int64("rate", 0, "bytes per second; 0 as many as the path takes")
	threshold := flags.Duration("stall", 100*time.Millisecond, "report gaps that are as long as this")
	reconnect := flags.Bool("reconnect", false, "connect again when the connection breaks")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 || *rate < 0 {
		return errors.Join(errUsage, err)
	}
	conn, err := dialStream(ctx, flags.Arg(0), *rate)
	if err != nil {
		return err
	}
	// Start the meter before the timer, so that the measurement is never shorter than the requested duration.
	meter := newMeter(*threshold, time.Now())
	if *duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *duration)
		defer cancel()
	}
	for {
		err := drain(ctx, conn, meter)
		if ctx.Err() != nil {
			break
		}
		meter.Breaks = append(meter.Breaks, err.Error())
		if !*reconnect {
			break
		}
		if conn, err = dialAgain(ctx, flags.Arg(0), *rate); err != nil {
			break
		}
	}
	return json.NewEncoder(out).Encode(meter.end(time.Now()))
}

// drain reads until the connection breaks or ctx ends.
func drain(ctx context.Context, conn net.Conn, meter *meter) error {
	defer func() { _ = conn.Close() }()
	// A deadline in the past unblocks the read.
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	buffer := make([]byte, chunk)
	for {
		n, err := conn.Read(buffer)
		if n > 0 {
			meter.read(n, time.Now())
		}
		if err != nil {
			return err
		}
	}
}

func dialStream(ctx context.Context, address string, rate int64) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "%s %d\n", wantSource, rate); err != nil {
		return nil, errors.Join(fmt.Errorf("asking %s for a stream: %w", address, err), conn.Close())
	}
	return conn, nil
}

// dialAgain retries to connect every 50 ms until it succeeds or ctx ends.
func dialAgain(ctx context.Context, address string, rate int64) (net.Conn, error) {
	for {
		conn, err := dialStream(ctx, address, rate)
		if err == nil {
			return conn, nil
		}
		fmt.Fprintln(os.Stderr, err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
