package story

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"

	"liqo.io/liqo/test/playground"
)

// Transport is the protocol by which exec, attach and port-forward reach the API server.
type Transport string

// Transports: what current kubectl uses, and what clients before Kubernetes 1.31 used.
const (
	WebSocket Transport = "WebSocket"
	SPDY      Transport = "SPDY"
)

// Logs returns the log of a container, as "kubectl logs" with these options would.
func (s *Story) Logs(c *playground.Cluster, namespace, pod string, options corev1.PodLogOptions) string {
	s.Helper()
	data, err := c.Set.CoreV1().Pods(namespace).GetLogs(pod, &options).DoRaw(s.Context())
	if err != nil { // the error alone does not contain the body of the response
		s.Must(fmt.Errorf("reading the logs of %s/%s: %w: %s", namespace, pod, err, data))
	}
	return string(data)
}

// Follow passes the lines that a container logs from now on to take, one by one, until take returns true.
func (s *Story) Follow(c *playground.Cluster, namespace, pod string, within time.Duration, take func(line string) (enough bool)) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), within)
	defer cancel()
	lines := s.follow(ctx, c, namespace, pod)
	for lines.Scan() {
		if take(lines.Text()) {
			return
		}
	}
	s.Fatalf("following the logs of %s/%s ended too early: %v", namespace, pod, lines.Err())
}

// LogStream opens the stream of a container's log, from its first line on. It lasts until stop is called or the story ends.
func (s *Story) LogStream(c *playground.Cluster, namespace, pod string) (lines *bufio.Scanner, stop context.CancelFunc) {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	s.Cleanup(stop)
	return s.follow(ctx, c, namespace, pod), stop
}

func (s *Story) follow(ctx context.Context, c *playground.Cluster, namespace, pod string) *bufio.Scanner {
	s.Helper()
	stream, err := c.Set.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	s.Must(err)
	s.Cleanup(func() { _ = stream.Close() })
	return bufio.NewScanner(stream)
}

// Said is the result of a command in a container.
type Said struct {
	Out, Err string
	Code     int
}

// attempts is how often Exec runs a command that seems to end with neither output nor an exit code.
const attempts = 3

// Exec runs a command in a container and waits for its end. If input is empty, there is no stdin stream. Otherwise each hop of Kubernetes could lose the output
// of a command that ends before the end of its input has arrived.
//
// On a busy machine, Kubernetes sometimes closes the connection before it has sent the end of the answer, also where Liqo is not involved. Clients get no error
// then: they see success. So Exec runs a command again whose answer is empty. The command must be repeatable.
func (s *Story) Exec(c *playground.Cluster, transport Transport, namespace, pod, input string, command ...string) Said {
	s.Helper()
	options := &corev1.PodExecOptions{Command: command, Stdin: input != "", Stdout: true, Stderr: true}
	var said Said
	for n := 0; n < attempts && said == (Said{}); n++ {
		if n > 0 {
			fmt.Printf("             no answer of %q in %s/%s, once more\n", command, namespace, pod)
		}
		var stdin io.Reader
		if input != "" {
			stdin = strings.NewReader(input)
		}
		var err error
		said, err = s.stream(c, transport, namespace, pod, "exec", options, stdin)
		s.Must(err)
	}
	return said
}

// TryExec is Exec without an input, for a container that may not be reachable yet. It returns the error instead of ending the story.
func (s *Story) TryExec(c *playground.Cluster, namespace, pod string, command ...string) (Said, error) {
	return s.stream(c, WebSocket, namespace, pod, "exec", &corev1.PodExecOptions{Command: command, Stdout: true, Stderr: true}, nil)
}

// Attach sends a line to the first process of a container and returns the first line of its answer.
func (s *Story) Attach(c *playground.Cluster, transport Transport, namespace, pod, line string) string {
	s.Helper()
	session := s.open(c, transport, namespace, pod, "attach", &corev1.PodAttachOptions{Stdin: true, Stdout: true, Stderr: true})
	defer session.Close()
	return session.Ask(line)
}

// Session is a connection to a process in a container that answers each line with a line.
type Session struct {
	story   *Story
	feed    *io.PipeWriter
	answers *bufio.Reader
	cancel  context.CancelFunc
	done    chan error
}

// Session runs a command in a container and returns the connection to it. The connection lasts until it is closed or the story ends.
func (s *Story) Session(c *playground.Cluster, transport Transport, namespace, pod string, command ...string) *Session {
	s.Helper()
	session := s.open(c, transport, namespace, pod, "exec", &corev1.PodExecOptions{Command: command, Stdin: true, Stdout: true, Stderr: true})
	s.Cleanup(session.Close)
	return session
}

func (s *Story) open(c *playground.Cluster, transport Transport, namespace, pod, verb string, options runtime.Object) *Session {
	s.Helper()
	executor, err := executor(c, transport, namespace, pod, verb, options)
	s.Must(err)
	input, feed := io.Pipe()
	answers, out := io.Pipe()
	ctx, cancel := context.WithCancel(s.Context())
	session := &Session{story: s, feed: feed, answers: bufio.NewReader(answers), cancel: cancel, done: make(chan error, 1)}
	go func() {
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: input, Stdout: out, Stderr: io.Discard})
		// A pending write or read returns an error, because the connection has ended.
		ended := errors.Join(io.EOF, err)
		_, _ = out.CloseWithError(ended), input.CloseWithError(ended)
		session.done <- err
	}()
	return session
}

// Ask sends a line and returns the line with which the process answers.
func (s *Session) Ask(line string) string {
	s.story.Helper()
	late := time.AfterFunc(20*time.Second, s.cancel)
	defer late.Stop()
	_, err := io.WriteString(s.feed, line+"\n")
	s.story.Must(err)
	answer, err := s.answers.ReadString('\n')
	s.story.Must(err)
	return answer[:len(answer)-1]
}

// Close ends the connection. It may be called several times.
func (s *Session) Close() {
	_ = s.feed.Close()
	s.cancel()
	<-s.done
	s.done <- nil
}

func (s *Story) stream(c *playground.Cluster, transport Transport, namespace, pod, verb string, options runtime.Object, input io.Reader) (Said, error) {
	executor, err := executor(c, transport, namespace, pod, verb, options)
	if err != nil {
		return Said{}, err
	}
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	var out, stderr bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: input, Stdout: &out, Stderr: &stderr})
	said := Said{Out: out.String(), Err: stderr.String()}
	var code utilexec.CodeExitError
	if errors.As(err, &code) {
		said.Code, err = code.Code, nil
	}
	return said, err
}

func executor(c *playground.Cluster, transport Transport, namespace, pod, verb string, options runtime.Object) (remotecommand.Executor, error) {
	target := at(c, namespace, pod, verb, options)
	if transport == SPDY {
		return remotecommand.NewSPDYExecutor(c.Config, http.MethodPost, target)
	}
	return remotecommand.NewWebSocketExecutor(c.Config, http.MethodGet, target.String())
}

func at(c *playground.Cluster, namespace, pod, verb string, options runtime.Object) *url.URL {
	request := c.Set.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource(verb)
	if options != nil {
		request = request.VersionedParams(options, scheme.ParameterCodec)
	}
	return request.URL()
}

// Forward opens a local port to a port of the pod, sends a GET request for the path through it, and returns the body of the response.
func (s *Story) Forward(c *playground.Cluster, transport Transport, namespace, pod string, port int, path string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	target := at(c, namespace, pod, "portforward", nil)
	dialer, err := portforward.NewSPDYOverWebsocketDialer(target, c.Config)
	if transport == SPDY {
		var roundTripper http.RoundTripper
		var upgrader spdy.Upgrader
		roundTripper, upgrader, err = spdy.RoundTripperFor(c.Config)
		dialer = spdy.NewDialer(upgrader, &http.Client{Transport: roundTripper}, http.MethodPost, target)
	}
	s.Must(err)
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddressesWithContext(ctx, dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, ready, io.Discard, io.Discard)
	s.Must(err)
	failed := make(chan error, 1)
	go func() { failed <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-failed:
		s.Fatalf("forwarding a port of %s/%s: %v", namespace, pod, err)
	}
	ports, err := forwarder.GetPorts()
	s.Must(err)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", ports[0].Local, path), nil)
	s.Must(err)
	answer, err := http.DefaultClient.Do(request)
	s.Must(err)
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	s.Must(err)
	return string(body)
}
