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

// Inside is a source of traffic: the first process of a pod's container that runs the test server, or a node. This machine runs commands directly in
// the mount and network namespaces of that process. So the commands need no API server and no kubelet, and these add no latency.
type Inside struct {
	// Name is the name for messages.
	Name string
	pid  int
}

// In returns the Inside of a pod whose image is TestServer.
func In(pod *corev1.Pod) (Inside, error) {
	pids, err := Container(pod, pod.Spec.Containers[0].Name)
	if err != nil {
		return Inside{}, err
	}
	return Inside{Name: pod.Name, pid: pids[0]}, nil
}

// InNode returns an Inside in the network of a node, where its kubelet runs. It has no test server.
func InNode(node string) (Inside, error) {
	pids, err := inGroup("/" + node)
	if err != nil {
		return Inside{}, err
	}
	for _, pid := range pids {
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(name)) == "kubelet" {
			return Inside{Name: node, pid: pid}, nil
		}
	}
	return Inside{}, fmt.Errorf("node %s runs no kubelet", node)
}

// command returns the command that runs the test server's program with these arguments.
func (i Inside) command(ctx context.Context, args ...string) *exec.Cmd {
	nsenter := append([]string{"--target", strconv.Itoa(i.pid), "--mount", "--net", "--", "/testserver"}, args...)
	return exec.CommandContext(ctx, "nsenter", nsenter...)
}

// Command returns a command that runs a program of this machine in the network namespace.
func (i Inside) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--target", strconv.Itoa(i.pid), "--net", "--", program}, args...)...)
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

// Answer is the result of a request to /whoami of a test server.
type Answer struct {
	URL, Error string
	Status     int
	// Milliseconds is the duration of the request, including the connection.
	Milliseconds float64
	// Pod and Cluster identify the server. Remote is the client's address as the server sees it, HOST:PORT.
	Pod, Cluster, Remote string
}

// WhoAmI requests /whoami from all servers at the same time.
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

// RoundTrips measures count round trips to the stream port of a test server, over "tcp" or "udp".
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

// Reception is the result of receiving a stream.
type Reception struct {
	Bytes         int64
	Seconds       float64
	BitsPerSecond float64
	// Longest is the longest stall in milliseconds.
	Longest float64 `json:"longestStallMilliseconds"`
	// Stalls are the stalls of at least 100 ms, in order of time.
	Stalls []Stall
	// Breaks are the errors that ended a connection early, such as a reset.
	Breaks []string
}

// Stall is a period in which no data arrived.
type Stall struct {
	// At is the end of the stall.
	At           time.Time
	Milliseconds float64
}

func (s Stall) String() string {
	return fmt.Sprintf("%.0f ms until %s", s.Milliseconds, s.At.Format("05.000"))
}

// Stream is a TCP connection over which a test server sends as fast as possible, or at a given rate.
type Stream struct {
	cmd     *exec.Cmd
	out     bytes.Buffer
	problem bytes.Buffer
	ended   chan error
}

// Receive starts to receive from the stream port of a test server, at rate bytes per second, 0 for full speed. It continues until Stop. If a
// connection breaks, a new one replaces it.
func (i Inside) Receive(ctx context.Context, address string, rate int) (*Stream, error) {
	s := &Stream{cmd: i.command(ctx, "stream", "-for", "0", "-rate", strconv.Itoa(rate), "-reconnect", address), ended: make(chan error, 1)}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.problem
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a stream from %s in %s: %w", address, i.Name, err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	return s, nil
}

// Process returns the ID of the receiving process.
func (s *Stream) Process() int { return s.cmd.Process.Pid }

// Stop ends the stream and returns the measurement.
func (s *Stream) Stop() (r Reception, err error) {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return r, fmt.Errorf("ending the stream: %w", err)
	}
	if err := <-s.ended; err != nil {
		return r, fmt.Errorf("receiving: %w: %s", err, strings.TrimSpace(s.problem.String()))
	}
	return r, json.Unmarshal(s.out.Bytes(), &r)
}

// Dial connects from the network namespace. The address must be an IP address. The connection stays in that namespace.
func (i Inside) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	// For an IP address, DialContext dials on the calling goroutine, and so on this thread.
	return within(i, func() (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, network, address) })
}

// Listen listens on an address in the network namespace. The listener stays in that namespace.
func (i Inside) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	return within(i, func() (net.Listener, error) { return (&net.ListenConfig{}).Listen(ctx, network, address) })
}

// ListenPacket is like Listen, for datagrams.
func (i Inside) ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error) {
	return within(i, func() (net.PacketConn, error) { return (&net.ListenConfig{}).ListenPacket(ctx, network, address) })
}

// within opens a socket in the network namespace.
func within[T any](i Inside, open func() (T, error)) (T, error) {
	type opened struct {
		socket T
		err    error
	}
	done := make(chan opened, 1)
	go func() {
		// Never unlock the thread, so that it ends with the goroutine: no other goroutine may run in the other namespace.
		runtime.LockOSThread()
		if err := i.enter(); err != nil {
			done <- opened{err: err}
			return
		}
		socket, err := open()
		done <- opened{socket, err}
	}()
	result := <-done
	return result.socket, result.err
}

// enter moves the calling thread into the network namespace.
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

// Ask requests a URL and returns the status and the response body.
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

// Lookup resolves names with the name server of the place. It fails if one of them has no address.
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
