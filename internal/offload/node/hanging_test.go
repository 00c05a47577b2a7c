package node

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"liqo.io/liqo/internal/remote"
)

// answers is the metrics API of a provider.
type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// scrapedFrom returns a kubelet API that reads the usage of its pod from a provider, with its clock and its log.
func scrapedFrom(t *testing.T, provider answers) (http.Handler, *testclock.FakePassiveClock, *strings.Builder) {
	t.Helper()
	logged := &strings.Builder{}
	s, err := NewServer(remote.IdentityOf(&rest.Config{Host: "https://milan"}), onePod{}, "milan", "Pod", StatsAge, slog.New(slog.NewTextHandler(logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	now := testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s.stats.clock, s.stats.http.Transport = clock.PassiveClock(now), provider
	return s.Handler(), now, logged
}

func scrape(h http.Handler) string {
	got := httptest.NewRecorder()
	h.ServeHTTP(got, httptest.NewRequest(http.MethodGet, "/metrics/resource", nil))
	return got.Body.String()
}

// TestHangingProviderIsAskedOnce: a provider does not respond until the timeout. Scrapes that arrive in the meantime do not wait for another timeout
// each: they fail together with the first one. The next scrape after StatsAge sends a new request.
func TestHangingProviderIsAskedOnce(t *testing.T) {
	var asked atomic.Int32
	began := make(chan struct{}, 10)
	release := make(chan struct{})
	var h http.Handler
	var now *testclock.FakePassiveClock
	h, now, _ = scrapedFrom(t, func(r *http.Request) (*http.Response, error) {
		if asked.Add(1) > 1 {
			return nil, context.DeadlineExceeded
		}
		if end, ends := r.Context().Deadline(); !ends || time.Until(end) > statsTimeout {
			t.Errorf("the request ends at %s, %t, want in %s", end, ends, statsTimeout)
		}
		began <- struct{}{}
		<-release
		now.SetTime(now.Now().Add(statsTimeout))
		return nil, context.DeadlineExceeded
	})
	const scrapes = 5
	texts := make([]string, scrapes)
	var all sync.WaitGroup
	all.Go(func() { texts[0] = scrape(h) })
	<-began
	for i := range scrapes - 1 {
		all.Go(func() { texts[i+1] = scrape(h) })
	}
	close(release)
	all.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("the provider was asked %d times", n)
	}
	for i, text := range texts {
		if !strings.Contains(text, "resource_scrape_error 1\n") {
			t.Errorf("scrape %d:\n%s", i, text)
		}
	}
	now.SetTime(now.Now().Add(StatsAge))
	if scrape(h); asked.Load() != 2 {
		t.Errorf("after %s the provider was asked %d times, want 2", StatsAge, asked.Load())
	}
}

// TestErrorsOfAProviderAreShortInTheLog: a provider chooses the text of its error. The log gets only its beginning, without control characters, and only once.
func TestErrorsOfAProviderAreShortInTheLog(t *testing.T) {
	h, now, logged := scrapedFrom(t, func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusInternalServerError, Status: "500 begin\x1b[2J" + strings.Repeat("x", 1<<20) + "end", Body: io.NopCloser(strings.NewReader("")),
		}, nil
	})
	for range 3 {
		scrape(h)
		now.SetTime(now.Now().Add(StatsAge))
	}
	text := logged.String()
	if lines := strings.Count(text, "\n"); lines != 1 || len(text) > mostErrorText+500 || !strings.Contains(text, "500 begin[2Jxxx") || strings.Contains(text, "end") ||
		strings.ContainsFunc(strings.TrimSuffix(text, "\n"), unicode.IsControl) {
		t.Errorf("%d lines, %d bytes: %.300q", lines, len(text), text)
	}
}
