package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// streams runs what a server has on its stream port, and returns the address.
func streams(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenPacket("udp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	go stream(t.Context(), listener)
	go bounce(conn)
	t.Cleanup(func() { listener.Close(); conn.Close() })
	return listener.Addr().String()
}

func received(t *testing.T, args ...string) (got reception) {
	t.Helper()
	out, err := do(t, append([]string{"stream"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return got
}

func TestStreamAtFullSpeed(t *testing.T) {
	got := received(t, "-for", "1s", "-stall", "10s", streams(t))
	if got.Bytes < 1<<20 || got.Seconds < 1 || len(got.Stalls) > 0 || len(got.Breaks) > 0 {
		t.Errorf("%+v", got)
	}
	if want := float64(got.Bytes) * 8 / got.Seconds; math.Abs(got.BitsPerSecond-want) > 1 {
		t.Errorf("%f bit/s, want %f", got.BitsPerSecond, want)
	}
}

func TestStreamIsPaced(t *testing.T) {
	const rate = 100_000
	address, began := streams(t), time.Now()
	got := received(t, "-for", "1s", "-rate", fmt.Sprint(rate), address)
	// A stream does not catch up after a delay. So a busy machine receives less, and never more; TestPace checks the exact rate. The server may start a moment
	// before the client's meter.
	if most := (time.Since(began).Seconds() + 0.1) * rate; got.Bytes == 0 || float64(got.Bytes) > most {
		t.Errorf("%d bytes in %.1f s at %d bytes per second, want at most %.0f", got.Bytes, got.Seconds, rate, most)
	}
}

// TestPace: a stream has exactly its rate, and does not catch up after a delay.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 100_000
		ours, theirs := net.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- pace(t.Context(), theirs, rate) }()
		second := func() time.Duration {
			t.Helper()
			began := time.Now()
			if _, err := io.ReadFull(ours, make([]byte, rate)); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		if took := second(); took < time.Second-beat || took > time.Second {
			t.Errorf("%d bytes took %v, want a second", rate, took)
		}
		time.Sleep(5 * time.Second)
		// One beat has passed while nobody read, so one chunk is ready.
		if took := second(); took < time.Second-2*beat || took > time.Second {
			t.Errorf("%d bytes after a delay took %v, want a second", rate, took)
		}
		if err := errors.Join(ours.Close(), theirs.Close()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil {
			t.Error("the stream ended without an error")
		}
	})
}

// TestStallsAndBreaks: a server that pauses and then resets the connection, twice.
func TestStallsAndBreaks(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- struct{}{}
			conn.Read(make([]byte, 64)) // what is left unread would change how the connection ends
			conn.Write([]byte("before"))
			time.Sleep(150 * time.Millisecond)
			conn.Write([]byte("after"))
			time.Sleep(20 * time.Millisecond)
			conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}
	}()
	// The client may read late, so the length of a single stall depends on the machine. TestMeterCountsBothEnds checks it.
	once := received(t, "-for", "1m", "-stall", "1ns", listener.Addr().String())
	if len(once.Stalls) == 0 {
		t.Fatalf("%+v", once)
	}
	longest := slices.MaxFunc(once.Stalls, func(a, b stall) int { return cmp.Compare(a.Milliseconds, b.Milliseconds) })
	if once.Bytes != 11 || longest.Milliseconds != once.Longest || len(once.Breaks) != 1 || !strings.Contains(once.Breaks[0], "reset") || once.Seconds >= 60 {
		t.Fatalf("%+v", once)
	}
	<-accepted
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the checks below fail then
	defer cancel()
	go func() {
		// Before the client connects for the fourth time, three connections broke. The second and the third one began after the client had read the end of the one
		// before. So the server's pause of 150 ms is in two gaps at most, and one of them has 75 ms.
		for range 4 {
			select {
			case <-ctx.Done():
			case <-accepted:
			}
		}
		cancel()
	}()
	var out strings.Builder
	var again reception
	if err := run(ctx, []string{"stream", "-for", "0", "-stall", "75ms", "-reconnect", listener.Addr().String()}, &out); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out.String()), &again); err != nil {
		t.Fatalf("%s: %v", out.String(), err)
	}
	if again.Bytes < 33 || len(again.Stalls) < 2 || len(again.Breaks) < 3 || again.Seconds < 0.3 {
		t.Errorf("%+v", again)
	}
}

// TestMeterCountsBothEnds: a stream that never starts, or stops before its time, has stalled.
func TestMeterCountsBothEnds(t *testing.T) {
	began := time.Now()
	at := func(milliseconds int) time.Time { return began.Add(time.Duration(milliseconds) * time.Millisecond) }
	m := newMeter(100*time.Millisecond, began)
	m.read(5, at(100))
	m.read(5, at(150))
	got := m.end(at(1150))
	if got.Longest != 1000 || len(got.Stalls) != 2 || got.Stalls[0].Milliseconds != 100 || got.Stalls[1] != (stall{At: at(1150), Milliseconds: 1000}) ||
		got.Bytes != 10 || got.Seconds != 1.15 {
		t.Errorf("%+v", got)
	}
}

func TestStreamEndsWithASignal(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		if conn, err := listener.Accept(); err == nil {
			go flood(conn)
			conn.Read(make([]byte, 64)) // the client has connected once it asks
		}
	}()
	var out strings.Builder
	if err := run(ctx, []string{"stream", "-for", "0", listener.Addr().String()}, &out); err != nil || !strings.Contains(out.String(), `"bytes":`) {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestRoundTrips(t *testing.T) {
	address := streams(t)
	for _, protocol := range []string{"tcp", "udp"} {
		args := []string{"rtt", "-count", "50", address}
		if protocol == "udp" {
			args = []string{"rtt", "-udp", "-count", "50", address}
		}
		out, err := do(t, args...)
		var got trips
		if err != nil || json.Unmarshal([]byte(out), &got) != nil {
			t.Fatalf("%q, %v", out, err)
		}
		if got.Protocol != protocol || got.Sent != 50 || got.Lost != 0 || got.Min <= 0 || got.Min > got.P50 || got.P50 > got.P99 || got.P99 > got.Max {
			t.Errorf("%+v", got)
		}
	}
	if _, err := do(t, "rtt", "127.0.0.1:1"); err == nil {
		t.Error("nobody answers, and that was no error")
	}
}

// TestLateDatagramsAreNotLost: a server answers one number of four late, and another one never.
func TestLateDatagramsAreNotLost(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	go func() {
		buffer := make([]byte, 16)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			switch binary.BigEndian.Uint64(buffer[:n]) % 4 {
			case 0:
				continue
			case 1:
				time.Sleep(100 * time.Millisecond)
			}
			_, _ = server.WriteTo(buffer[:n], from)
		}
	}()
	// On a busy machine, each answer may take a second.
	out, err := do(t, "rtt", "-udp", "-count", "4", "-patience", "5s", server.LocalAddr().String())
	var got trips
	if err != nil || json.Unmarshal([]byte(out), &got) != nil {
		t.Fatalf("%q, %v", out, err)
	}
	if got.Sent != 4 || got.Lost != 1 || got.P99 < 100_000 {
		t.Errorf("%+v", got)
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(hundred, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if quantile(nil, 0.5) != 0 || quantile([]float64{7}, 0.99) != 7 {
		t.Error("quantiles of few values")
	}
}

func TestProbeReportsEachURL(t *testing.T) {
	web, _ := start(t)
	out, err := do(t, "probe", "http://"+web+"/whoami", "http://127.0.0.1:1/", "http://"+web+"/bytes?n=-1")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 {
		t.Fatalf("%q", out)
	}
	var got [3]probed
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &got[i]); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	var who caller
	if err := json.Unmarshal([]byte(got[0].Answer), &who); err != nil || got[0].Error != "" || who.Pod != "pod-7" || who.Local != web ||
		!strings.HasPrefix(who.Remote, "127.0.0.1:") {
		t.Errorf("%+v, %+v, %v", got[0], who, err)
	}
	if !strings.Contains(got[1].Error, "refused") || got[2].Status != 400 || got[2].Error != "" || got[0].Status != 200 {
		t.Errorf("%+v %+v", got[1], got[2])
	}
}

func TestWhoAmISaysTheCluster(t *testing.T) {
	t.Setenv("CLUSTER_NAME", "rome")
	web, _ := start(t)
	response, err := http.Get("http://" + web + "/whoami")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(body), `"cluster":"rome"`) {
		t.Errorf("%q, %v", body, err)
	}
}
