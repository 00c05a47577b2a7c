package remote

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestRequestsAreObserved: each request is reported once, also one that fails, and the client's transport can still be found.
func TestRequestsAreObserved(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	observed := map[string]int{}
	cfg := &rest.Config{Host: server.URL}
	Tune(cfg)
	Observe(cfg, func(method string, took time.Duration) {
		observed[method]++
		if took <= 0 {
			t.Errorf("a request of method %s took %s", method, took)
		}
	})
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		resp, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if wrapper, ok := client.Transport.(interface{ WrappedRoundTripper() http.RoundTripper }); !ok || wrapper.WrappedRoundTripper() == nil {
		t.Errorf("transport %T does not show the one that it wraps", client.Transport)
	}
	server.Close()
	if resp, err := client.Post(server.URL, "", nil); err == nil {
		resp.Body.Close()
		t.Fatal("a closed server responded")
	}
	if observed[http.MethodGet] != 2 || observed[http.MethodPost] != 1 {
		t.Errorf("observed %v, want 2 GET and 1 POST", observed)
	}
}
