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

// Transport is how exec, attach and port-forward reach the API server.
type Transport string

// Transports: what kubectl uses now, and what clients before Kubernetes 1.31 used.
const (
	WebSocket Transport = "WebSocket"
	SPDY      Transport = "SPDY"
)

// Logs returns what a container has said, as "kubectl logs" with these options would.
func (s *Story) Logs(c *playground.Cluster, namespace, pod string, options corev1.PodLogOptions) string {
	s.Helper()
	data, err := c.Set.CoreV1().Pods(namespace).GetLogs(pod, &options).DoRaw(s.Context())
	s.Must(err)
	return string(data)
}

// Follow hands over the lines that a container says from now on, one by one as they come, until take has enough.
func (s *Story) Follow(c *playground.Cluster, namespace, pod string, within time.Duration, take func(line string) (enough bool)) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), within)
	defer cancel()
	stream, err := c.Set.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	s.Must(err)
	defer func() { _ = stream.Close() }()
	lines := bufio.NewScanner(stream)
	for lines.Scan() {
		if take(lines.Text()) {
			return
		}
	}
	s.Fatalf("following the logs of %s/%s ended too early: %v", namespace, pod, lines.Err())
}

// Said is what a command in a container did.
type Said struct {
	Out, Err string
	Code     int
}

// Exec runs a command in a container with an input, and waits for its end.
func (s *Story) Exec(c *playground.Cluster, transport Transport, namespace, pod, input string, command ...string) Said {
	s.Helper()
	options := &corev1.PodExecOptions{Command: command, Stdin: true, Stdout: true, Stderr: true}
	said, err := s.stream(c, transport, namespace, pod, "exec", options, bytes.NewBufferString(input))
	s.Must(err)
	return said
}

// Attach sends a line to the first process of a container and returns the first line of its answer.
func (s *Story) Attach(c *playground.Cluster, transport Transport, namespace, pod, line string) string {
	s.Helper()
	input, feed := io.Pipe()
	answer, out := io.Pipe()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	executor, err := executor(c, transport, namespace, pod, "attach", &corev1.PodAttachOptions{Stdin: true, Stdout: true, Stderr: true})
	s.Must(err)
	done := make(chan error, 1)
	go func() {
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: input, Stdout: out, Stderr: io.Discard})
		out.CloseWithError(errors.Join(io.EOF, err))
		done <- err
	}()
	_, err = io.WriteString(feed, line+"\n")
	s.Must(err)
	got, err := bufio.NewReader(answer).ReadString('\n')
	s.Must(err)
	_ = feed.Close()
	cancel()
	_ = answer.Close()
	<-done
	return got[:len(got)-1]
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

// Forward opens a local port to a port of the pod, gets the path over HTTP through it, and returns the answer.
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
