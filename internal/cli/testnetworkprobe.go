package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"liqo.io/liqo/internal/excerpt"
	"liqo.io/liqo/internal/remote"
)

const (
	// attempts is how often a check is tried before it counts as failed.
	attempts = 5
	// answerTime is the timeout of one request.
	answerTime = 3 * time.Second
	// atOnce is the number of checks that run concurrently.
	atOnce = 8
	// maxOutput is the maximum number of bytes that a command in a pod may write; commands of Liqo write less. maxProblem is the maximum number of
	// bytes of its error output that a message shows.
	maxOutput  = 4 << 20
	maxProblem = 4 << 10
	// maxCommandTime is the time limit of a command in a pod. The commands of Liqo end within seconds. Without a limit, a peer that runs the pod, or
	// forwards the connection, could keep liqoctl waiting forever by sending a byte now and then.
	maxCommandTime = 2 * time.Minute
)

// asker makes one attempt of a check. Tests replace it.
type asker func(ctx context.Context, check *testCheck) ([]testOutcome, error)

// check runs all checks and returns an error with every pair that failed.
func (t *networkTest) check(ctx context.Context, checks []testCheck) error {
	step := t.consumer.Start("Making %d checks", len(checks))
	defer step.End()
	report := &testReport{}
	err := report.run(ctx, checks, t.options.failFast, t.ask, func(check *testCheck, failures []testFailure) {
		if t.options.all {
			verdict := "ok"
			if len(failures) > 0 {
				verdict = "FAILED"
			}
			t.consumer.Info("%s: %s -> %s: %s", check.title, check.source(), strings.Join(check.urls, ", "), verdict)
		}
	})
	step.End()
	for _, title := range report.titles {
		count := report.counts[title]
		t.consumer.Info("%s: %d of %d", title, count.good, count.all)
	}
	if err != nil {
		return err
	}
	return report.verdict()
}

// testReport collects the results of the checks.
type testReport struct {
	mu       sync.Mutex
	titles   []string
	counts   map[string]struct{ good, all int }
	failures []testFailure
}

// errFailFast cancels the other checks.
var errFailFast = errors.New("a check failed")

// run runs the checks, several concurrently, and calls tell with each result. It fails only if ctx has ended.
func (r *testReport) run(ctx context.Context, checks []testCheck, failFast bool, ask asker, tell func(*testCheck, []testFailure)) error {
	r.counts = map[string]struct{ good, all int }{}
	for _, check := range checks {
		if !slices.Contains(r.titles, check.title) {
			r.titles = append(r.titles, check.title)
		}
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range checks {
		check := &checks[i]
		group.Go(func() error {
			if inner.Err() != nil {
				return nil
			}
			failures := persist(inner, check, ask)
			if inner.Err() != nil {
				return nil // the result of a cancelled check is meaningless
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			count := r.counts[check.title]
			count.all++
			if len(failures) == 0 {
				count.good++
			}
			r.counts[check.title] = count
			r.failures = append(r.failures, failures...)
			tell(check, failures)
			if failFast && len(failures) > 0 {
				return errFailFast
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil && !errors.Is(err, errFailFast) {
		return err
	}
	if ctx.Err() != nil {
		return errors.Join(r.verdict(), fmt.Errorf("checking the network: the command timed out (--timeout), or was interrupted: %w", ctx.Err()))
	}
	return nil
}

func (r *testReport) verdict() error {
	if len(r.failures) == 0 {
		return nil
	}
	lines := make([]string, len(r.failures))
	for i, failure := range r.failures {
		lines[i] = failure.String()
	}
	slices.Sort(lines)
	return fmt.Errorf("the network does not work everywhere, %d pairs fail:\n%s\nliqoctl network explain SOURCE TARGET shows where a path is broken",
		len(lines), strings.Join(lines, "\n"))
}

// persist repeats a check until it succeeds or has been tried often enough.
func persist(ctx context.Context, check *testCheck, ask asker) []testFailure {
	var failures []testFailure
	for attempt := range attempts {
		if attempt > 0 {
			select {
			case <-ctx.Done():
				return failures
			case <-time.After(retryPause):
			}
		}
		outcomes, err := ask(ctx, check)
		if err != nil {
			failures = []testFailure{{check.source(), strings.Join(check.urls, ", "), err.Error()}}
			continue
		}
		if failures = check.judge(outcomes); len(failures) == 0 {
			return nil
		}
	}
	return failures
}

// ask makes one attempt of a check from its source.
func (t *networkTest) ask(ctx context.Context, check *testCheck) ([]testOutcome, error) {
	if check.pod == callerMachine {
		return askFromHere(ctx, check.urls), nil
	}
	command := append([]string{testServerProgram, "probe", "-timeout", answerTime.String()}, check.urls...)
	out, err := runInPod(ctx, t.cluster(check.cluster), t.namespace(), check.pod, command...)
	if err != nil {
		return nil, err
	}
	return parseOutcomes(out)
}

// askFromHere sends the requests from this machine, in the same way as the probe in a pod.
func askFromHere(ctx context.Context, urls []string) []testOutcome {
	client := &http.Client{Timeout: answerTime, Transport: remote.WithoutRedirects(&http.Transport{DisableKeepAlives: true})}
	outcomes := make([]testOutcome, len(urls))
	var all sync.WaitGroup
	for i, url := range urls {
		all.Go(func() {
			began := time.Now()
			answer, err := fetch(ctx, client, url)
			outcomes[i] = testOutcome{URL: url, Answer: answer, Milliseconds: float64(time.Since(began)) / float64(time.Millisecond)}
			if err != nil {
				outcomes[i].Error = err.Error()
			}
		})
	}
	all.Wait()
	return outcomes
}

func fetch(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	return string(data), err
}

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

// runInPod runs a command in the only container of a pod and returns its standard output. It fails if the command writes more than maxOutput, or takes
// longer than maxCommandTime.
func runInPod(ctx context.Context, c *cluster, namespace, pod string, command ...string) (string, error) {
	return runInContainer(ctx, c, namespace, pod, "", command...)
}

// runInContainer is runInPod in one of the containers of a pod. An empty name is that of the only container.
func runInContainer(ctx context.Context, c *cluster, namespace, pod, container string, command ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(c.commandLimit, maxCommandTime), errTooSlow)
	defer cancel()
	return runUntilDone(ctx, c, namespace, pod, container, command...)
}

// runUntilDone is runInContainer until ctx ends.
func runUntilDone(ctx context.Context, c *cluster, namespace, pod, container string, command ...string) (string, error) {
	set, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return "", err
	}
	target := set.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	// Like kubectl, it uses WebSocket, and SPDY if a proxy or the server does not support WebSocket.
	socket, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, target.String())
	if err != nil {
		return "", err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, target)
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
		return "", fmt.Errorf("running %s in pod %s of cluster %s: %w", command[0], pod, c.id, context.Cause(ctx))
	case err := <-done:
		switch {
		case context.Cause(ctx) != nil: // the command failed, and the context has ended
			return "", fmt.Errorf("running %s in pod %s of cluster %s: %w", command[0], pod, c.id, context.Cause(ctx))
		case err != nil:
			return "", fmt.Errorf("running %s in pod %s of cluster %s: %w: %s",
				command[0], pod, c.id, err, strings.TrimSpace(excerpt.Of(problem.kept.String(), maxProblem)))
		}
		return out.kept.String(), nil
	}
}
