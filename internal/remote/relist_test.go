package remote

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// cutBody is the body of a watch; it ends with the error.
type cutBody struct{ err error }

func (b *cutBody) Read([]byte) (int, error) { return 0, b.err }
func (b *cutBody) Close() error             { return nil }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestInterruptedWatchesStartWithAList: a watch is resumed after one that ended in order. After one that was interrupted or could not be started, it starts
// with a list. Each watch of a set is rejected once for each interruption.
func TestInterruptedWatchesStartWithAList(t *testing.T) {
	const (
		watchIt = "https://api/api/v1/pods?labelSelector=a%3Db&resourceVersion=7&watch=true"
		stream  = "https://api/api/v1/pods?labelSelector=a%3Db&resourceVersion=7&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true"
		listIt  = "https://api/api/v1/pods?labelSelector=a%3Db&resourceVersion=7&resourceVersionMatch=NotOlderThan"
		other   = "https://api/api/v1/pods?labelSelector=c%3Dd&resourceVersion=7&watch=true"
	)
	var asked []string
	var answer func() (*http.Response, error)
	now := time.Unix(0, 0)
	r := &relister{now: func() time.Time { return now }, sets: map[string]*watchedSet{}, next: roundTrip(func(req *http.Request) (*http.Response, error) {
		asked = append(asked, req.URL.RawQuery)
		return answer()
	})}
	ends := func(err error) func() (*http.Response, error) {
		return func() (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: &cutBody{err}}, nil
		}
	}
	// do reads the body and returns the status, 0 without a response.
	do := func(url string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := r.RoundTrip(req)
		if err != nil {
			return 0
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode == http.StatusGone && !strings.Contains(string(body), `"reason":"Expired"`) {
			t.Errorf("refused with %s", body)
		}
		return resp.StatusCode
	}
	expect := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	answer = ends(io.EOF)
	expect("first", do(watchIt), 200)
	expect("after one that ended in order", do(watchIt), 200)
	answer = ends(io.ErrUnexpectedEOF)
	expect("one that is cut", do(watchIt), 200)
	answer = ends(io.EOF)
	expect("another set", do(other), 200)
	expect("after one that was cut", do(watchIt), 410)
	asked = nil
	expect("the list", do(listIt), 200)
	expect("the list as a watch", do(stream), 200)
	for _, query := range asked {
		if strings.Contains(query, "resourceVersion=") {
			t.Errorf("the list may be from another history: %s", query)
		}
	}
	expect("after the list", do(watchIt), 200)

	answer = func() (*http.Response, error) { return nil, errors.New("connection refused") }
	expect("nobody answers", do(watchIt), 0)
	answer = ends(io.EOF)
	expect("after nobody answered", do(watchIt), 410)
	expect("after the refusal", do(watchIt), 200)

	answer = func() (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
	}
	expect("a load balancer answers", do(watchIt), 503)
	answer = ends(io.EOF)
	expect("after a load balancer answered", do(watchIt), 410)

	now, asked = now.Add(consistentFor), nil
	expect("a list later", do(listIt), 200)
	if len(asked) != 1 || !strings.Contains(asked[0], "resourceVersion=7") {
		t.Errorf("an ordinary list is not left alone: %q", asked)
	}
}

// TestEachCacheOfASetLists: two caches of the same objects both list.
func TestEachCacheOfASetLists(t *testing.T) {
	err := io.ErrUnexpectedEOF
	r := &relister{now: time.Now, sets: map[string]*watchedSet{}, next: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: &cutBody{err}}, nil
	})}
	watch := func() *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api/api/v1/pods?resourceVersion=7&watch=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := r.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	for _, resp := range []*http.Response{watch(), watch()} {
		_, _ = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	err = io.EOF
	for i, want := range []int{410, 410, 200} {
		resp := watch()
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("watch %d: %d, want %d", i, resp.StatusCode, want)
		}
	}
}
