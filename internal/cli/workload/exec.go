package workload

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/excerpt"
)

const (
	// maxOutput is the maximum number of bytes that a command in a pod may write; commands of Liqo write less. maxProblem is the maximum number of
	// bytes of its error output that a message shows.
	maxOutput  = 4 << 20
	maxProblem = 4 << 10
	// maxCommandTime is the time limit of a command in a pod. The commands of Liqo end within seconds. Without a limit, a peer that runs the pod, or
	// forwards the connection, could keep liqoctl waiting forever by sending a byte now and then.
	maxCommandTime = 2 * time.Minute
)

// boundedOutput keeps the first bytes that are written to it. It drops further bytes, and calls exceeded for them.
type boundedOutput struct {
	kept     bytes.Buffer // not embedded: io.Copy would use its ReadFrom
	limit    int
	exceeded func()
}

// Write implements io.Writer. It never fails: the executor would log the error and read on.
func (b *boundedOutput) Write(p []byte) (int, error) {
	room := min(len(p), b.limit-b.kept.Len())
	_, _ = b.kept.Write(p[:room]) // never fails
	if room < len(p) && b.exceeded != nil {
		b.exceeded()
	}
	return len(p), nil
}

// errTooLong is the cause of the end of a command whose output is too long.
var errTooLong = fmt.Errorf("its output is longer than %d MiB: the image of the pod is not the one that this command expects", maxOutput>>20)

// errTooSlow is the cause of the end of a command that takes too long.
var errTooSlow = errors.New("it does not end in time")

// Run runs a command in the only container of a pod and returns its standard output. It fails if the command writes more than maxOutput, or takes
// longer than maxCommandTime.
func Run(ctx context.Context, c *session.Cluster, namespace, pod string, command ...string) (string, error) {
	return RunIn(ctx, c, namespace, pod, "", command...)
}

// RunIn is Run in one of the containers of a pod. An empty name is that of the only container.
func RunIn(ctx context.Context, c *session.Cluster, namespace, pod, container string, command ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(c.CommandLimit, maxCommandTime), errTooSlow)
	defer cancel()
	return runUntilDone(ctx, c, namespace, pod, container, command...)
}

// runUntilDone is RunIn until ctx ends.
func runUntilDone(ctx context.Context, c *session.Cluster, namespace, pod, container string, command ...string) (string, error) {
	set, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return "", err
	}
	target := set.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	// Like kubectl, it uses WebSocket, and SPDY if a proxy or the server does not support WebSocket.
	socket, err := remotecommand.NewWebSocketExecutor(c.Config, http.MethodGet, target.String())
	if err != nil {
		return "", err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.Config, http.MethodPost, target)
	if err != nil {
		return "", err
	}
	executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out, problem := &boundedOutput{limit: maxOutput, exceeded: func() { cancel(errTooLong) }}, &boundedOutput{limit: excerpt.Needs(maxProblem)}
	done := make(chan error, 1)
	// The executor ignores the context while it waits for the upgrade of the connection.
	go func() {
		done <- executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: problem})
	}()
	select {
	case <-ctx.Done():
		return "", fmt.Errorf("running %s in pod %s of cluster %s: %w", command[0], pod, c.ID, context.Cause(ctx))
	case err := <-done:
		switch {
		case context.Cause(ctx) != nil: // the command failed, and the context has ended
			return "", fmt.Errorf("running %s in pod %s of cluster %s: %w", command[0], pod, c.ID, context.Cause(ctx))
		case err != nil:
			return "", fmt.Errorf("running %s in pod %s of cluster %s: %w: %s",
				command[0], pod, c.ID, err, strings.TrimSpace(excerpt.Of(problem.kept.String(), maxProblem)))
		}
		return out.kept.String(), nil
	}
}

// ReadAll returns the response to a request. It fails if the response has more than limit bytes, because a pod can write without end and the cluster of the pod
// is not trusted.
func ReadAll(ctx context.Context, request rest.ResponseWrapper, limit int64) ([]byte, error) {
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("the response has more than %d bytes", limit)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// MaxLine is the maximum length, in bytes, of a line that liqoctl reads from a pod. A line of progress has a few hundred bytes.
const MaxLine = 64 << 10

// LastLine returns the last line that a container of a pod wrote. It fails if the line has more than MaxLine bytes.
func LastLine(ctx context.Context, c *session.Cluster, namespace, pod, container string) ([]byte, error) {
	set, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	one := int64(1)
	return ReadAll(ctx, set.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container, TailLines: &one}), MaxLine)
}
