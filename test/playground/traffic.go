package playground

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// Inside is a place to send traffic from: the first process of a pod's container that runs the test server. Commands are run in its mount
// and network namespaces by this machine, so they need no API server, no kubelet, and cost no time in between.
type Inside struct {
	// Name is for messages.
	Name string
	pid  int
}

// In returns the inside of a pod, whose image is TestServer.
func In(pod *corev1.Pod) (Inside, error) {
	pids, err := Container(pod, pod.Spec.Containers[0].Name)
	if err != nil {
		return Inside{}, err
	}
	return Inside{Name: pod.Name, pid: pids[0]}, nil
}

// command is the test server's program with these arguments.
func (i Inside) command(ctx context.Context, args ...string) *exec.Cmd {
	nsenter := append([]string{"--target", strconv.Itoa(i.pid), "--mount", "--net", "--", "/testserver"}, args...)
	return exec.CommandContext(ctx, "nsenter", nsenter...)
}

func (i Inside) output(ctx context.Context, args ...string) ([]byte, error) {
	cmd := i.command(ctx, args...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("running %s in %s: %w: %s", strings.Join(args, " "), i.Name, err, strings.TrimSpace(problem.String()))
	}
	return out.Bytes(), nil
}

// Answer is what came of asking a test server who it is.
type Answer struct {
	URL, Error string
	Status     int
	// Milliseconds is how long it took, connecting included.
	Milliseconds float64
	// Pod and Cluster are the server, Remote is the asker as the server saw it, HOST:PORT.
	Pod, Cluster, Remote string
}

// WhoAmI asks all URLs at once for the path /whoami.
func (i Inside) WhoAmI(ctx context.Context, timeout time.Duration, authorities ...string) ([]Answer, error) {
	args := []string{"probe", "-timeout", timeout.String()}
	for _, authority := range authorities {
		args = append(args, "http://"+authority+"/whoami")
	}
	out, err := i.output(ctx, args...)
	if err != nil {
		return nil, err
	}
	var answers []Answer
	for line := range bytes.Lines(out) {
		var said struct {
			URL, Answer, Error string
			Status             int
			Milliseconds       float64
		}
		if err := json.Unmarshal(line, &said); err != nil {
			return nil, fmt.Errorf("reading %q: %w", line, err)
		}
		answer := Answer{Error: said.Error, Status: said.Status}
		if answer.Error == "" {
			if err := json.Unmarshal([]byte(said.Answer), &answer); err != nil {
				answer.Error = fmt.Sprintf("%q is no answer of a test server", said.Answer)
			}
		}
		answer.URL, answer.Milliseconds = said.URL, said.Milliseconds
		answers = append(answers, answer)
	}
	return answers, nil
}

// Trips is a distribution of round trips, in microseconds.
type Trips struct {
	Sent, Lost int
	P50        float64 `json:"p50Microseconds"`
	P99        float64 `json:"p99Microseconds"`
}

// RoundTrips measures as many of them, to the stream port of a test server, over "tcp" or "udp".
func (i Inside) RoundTrips(ctx context.Context, protocol, address string, count int) (trips Trips, err error) {
	args := []string{"rtt", "-count", strconv.Itoa(count)}
	if protocol == "udp" {
		args = append(args, "-udp")
	}
	out, err := i.output(ctx, append(args, address)...)
	if err != nil {
		return trips, err
	}
	return trips, json.Unmarshal(out, &trips)
}

// Reception is what came of a stream.
type Reception struct {
	Bytes         int64
	Seconds       float64
	BitsPerSecond float64
	// Longest is the longest stall in milliseconds.
	Longest float64 `json:"longestStallMilliseconds"`
	// Stalls are those of at least 100 ms, in order of time.
	Stalls []Stall
	// Breaks are the ends of connections that nobody wanted, resets above all.
	Breaks []string
}

// Stall is a time in which nothing arrived.
type Stall struct {
	// At is when it ended.
	At           time.Time
	Milliseconds float64
}

func (s Stall) String() string {
	return fmt.Sprintf("%.0f ms until %s", s.Milliseconds, s.At.Format("05.000"))
}

// Stream is a TCP connection over which a test server sends as fast as it can, or at a rate.
type Stream struct {
	cmd     *exec.Cmd
	out     bytes.Buffer
	problem bytes.Buffer
	ended   chan error
}

// Receive begins a stream from the stream port of a test server, at rate bytes a second, 0 for full speed. It goes on until Stop, a new
// connection taking over from one that breaks.
func (i Inside) Receive(ctx context.Context, address string, rate int) (*Stream, error) {
	s := &Stream{cmd: i.command(ctx, "stream", "-for", "0", "-rate", strconv.Itoa(rate), "-reconnect", address), ended: make(chan error, 1)}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.problem
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a stream from %s in %s: %w", address, i.Name, err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	return s, nil
}

// Process is the ID of the process that receives.
func (s *Stream) Process() int { return s.cmd.Process.Pid }

// Stop ends the stream and returns what was measured.
func (s *Stream) Stop() (r Reception, err error) {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return r, fmt.Errorf("ending the stream: %w", err)
	}
	if err := <-s.ended; err != nil {
		return r, fmt.Errorf("receiving: %w: %s", err, strings.TrimSpace(s.problem.String()))
	}
	return r, json.Unmarshal(s.out.Bytes(), &r)
}

// Dial connects from the place's network namespace; the address must be literal. The connection keeps belonging there.
func (i Inside) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	type dialled struct {
		conn net.Conn
		err  error
	}
	done := make(chan dialled, 1)
	go func() {
		// Never unlocked: a thread that is in another namespace must not run anything else, and ends with the goroutine. A literal address
		// is dialled by the goroutine that calls, in this very thread.
		runtime.LockOSThread()
		if err := i.enter(); err != nil {
			done <- dialled{err: err}
			return
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		done <- dialled{conn, err}
	}()
	result := <-done
	return result.conn, result.err
}

// Listen listens at an address of the place's network namespace. The listener keeps belonging there.
func (i Inside) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	type listening struct {
		listener net.Listener
		err      error
	}
	done := make(chan listening, 1)
	go func() {
		runtime.LockOSThread() // as in Dial
		if err := i.enter(); err != nil {
			done <- listening{err: err}
			return
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, network, address)
		done <- listening{listener, err}
	}()
	result := <-done
	return result.listener, result.err
}

// enter brings the calling thread into the network namespace.
func (i Inside) enter() error {
	file, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", i.pid))
	if err != nil {
		return fmt.Errorf("entering the network of %s: %w", i.Name, err)
	}
	defer func() { _ = file.Close() }()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering the network of %s: %w", i.Name, err)
	}
	return nil
}

// Ask gets a path of a server, and returns the status and what it said.
func (i Inside) Ask(ctx context.Context, timeout time.Duration, url string) (status int, said string, err error) {
	out, err := i.output(ctx, "probe", "-timeout", timeout.String(), url)
	if err != nil {
		return 0, "", err
	}
	var got struct {
		Answer, Error string
		Status        int
	}
	if err := json.Unmarshal(out, &got); err != nil {
		return 0, "", fmt.Errorf("reading %q: %w", out, err)
	}
	if got.Error != "" {
		return 0, "", errors.New(got.Error)
	}
	return got.Status, got.Answer, nil
}

// Lookup asks the place's name server for the addresses of names; it fails if one has none.
func (i Inside) Lookup(ctx context.Context, names ...string) (map[string][]string, error) {
	out, err := i.output(ctx, append([]string{"lookup"}, names...)...)
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		name, address, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[name] = append(found[name], address)
	}
	return found, nil
}
