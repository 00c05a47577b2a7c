package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"time"
)

// trips is the result of measuring round trips. Times are in microseconds.
type trips struct {
	Protocol string `json:"protocol"`
	Sent     int    `json:"sent"`
	// Lost is the number of datagrams without a response. Over TCP, it is always 0.
	Lost int     `json:"lost"`
	Min  float64 `json:"minMicroseconds"`
	P50  float64 `json:"p50Microseconds"`
	P99  float64 `json:"p99Microseconds"`
	Max  float64 `json:"maxMicroseconds"`
}

// roundTrips measures round trips to the stream port of a server, one at a time over one connection. For each, it sends 16 bytes and waits
// until the server has sent them back.
func roundTrips(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("rtt", flag.ContinueOnError)
	count := flags.Int("count", 1000, "how many")
	interval := flags.Duration("interval", 0, "time between an answer and the next question")
	datagrams := flags.Bool("udp", false, "datagrams instead of a connection")
	// A busy machine may take seconds for a response, and a late response is not a lost one.
	patience := flags.Duration("patience", 10*time.Second, "how long to wait for a response")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 || *count < 1 {
		return errors.Join(errUsage, err)
	}
	result := trips{Protocol: "tcp"}
	if *datagrams {
		result.Protocol = "udp"
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, result.Protocol, flags.Arg(0))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if !*datagrams {
		if _, err := fmt.Fprintln(conn, wantEcho); err != nil {
			return fmt.Errorf("asking %s for an echo: %w", flags.Arg(0), err)
		}
	}
	var times []float64
	for result.Sent < *count && ctx.Err() == nil {
		result.Sent++
		took, err := trip(conn, uint64(result.Sent), *patience)
		switch {
		case err == nil:
			times = append(times, float64(took)/float64(time.Microsecond))
		case *datagrams && ctx.Err() == nil:
			result.Lost++
		case ctx.Err() == nil:
			return fmt.Errorf("round trip %d to %s: %w", result.Sent, flags.Arg(0), err)
		}
		if *interval > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(*interval):
			}
		}
	}
	slices.Sort(times)
	result.Min, result.P50, result.P99, result.Max = quantile(times, 0), quantile(times, 0.5), quantile(times, 0.99), quantile(times, 1)
	return json.NewEncoder(out).Encode(result)
}

// trip sends a number and waits until the server has sent it back. It skips responses to earlier numbers.
func trip(conn net.Conn, number uint64, patience time.Duration) (time.Duration, error) {
	var question, answer [16]byte
	binary.BigEndian.PutUint64(question[:], number)
	began := time.Now()
	if err := conn.SetReadDeadline(began.Add(patience)); err != nil {
		return 0, err
	}
	datagrams := conn.RemoteAddr().Network() == "udp"
	if _, err := conn.Write(question[:]); err != nil {
		return 0, err
	}
	for {
		var err error
		if datagrams {
			_, err = conn.Read(answer[:])
		} else {
			_, err = io.ReadFull(conn, answer[:])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, errors.New("no answer")
		}
		if err != nil {
			return 0, err
		}
		if binary.BigEndian.Uint64(answer[:]) == number {
			return time.Since(began), nil
		}
	}
}

// quantile returns the q-quantile of sorted values by the nearest-rank method, or 0 if there are no values.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
