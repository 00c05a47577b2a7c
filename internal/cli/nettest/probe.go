package nettest

import (
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

	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/workload"
	"liqo.io/liqo/internal/remote"
)

const (
	// attempts is how often a check is tried before it counts as failed.
	attempts = 5
	// answerTime is the timeout of one request.
	answerTime = 3 * time.Second
	// atOnce is the number of checks that run concurrently.
	atOnce = 8
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

// run runs the checks, several concurrently, and calls report with each result. It fails only if ctx has ended.
func (r *testReport) run(ctx context.Context, checks []testCheck, failFast bool, ask asker, report func(*testCheck, []testFailure)) error {
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
			if failFast && len(r.failures) > 0 {
				return nil // another check failed at the same time
			}
			count := r.counts[check.title]
			count.all++
			if len(failures) == 0 {
				count.good++
			}
			r.counts[check.title] = count
			r.failures = append(r.failures, failures...)
			report(check, failures)
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
			case <-time.After(session.RetryPause):
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
	namespace := t.namespace()
	if check.host {
		namespace = t.hostsNamespace()
	}
	out, err := workload.Run(ctx, t.cluster(check.cluster), namespace, check.pod, command...)
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
