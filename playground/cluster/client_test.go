package cluster

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"liqo.io/playground/component"
)

// TestApplyToABusyAPIServer: a request that times out or gets a temporary error is repeated, a rejected one is not.
func TestApplyToABusyAPIServer(t *testing.T) {
	asked := 0
	answers := []func(http.ResponseWriter, *http.Request){
		func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done() // the client gave up
		},
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) },
		func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "name is missing", http.StatusUnprocessableEntity)
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		answers[asked-1](w, r)
	}))
	defer server.Close()
	c := &client{&http.Client{Timeout: 2 * time.Second}, server.URL}
	object := component.Object{Path: "/api/v1/nodes/rome-1", Body: []byte("{}")}
	if err := c.apply(t.Context(), object); err != nil || asked != 4 {
		t.Errorf("%v after %d requests, want none after 4", err, asked)
	}
	if err := c.apply(t.Context(), object); err == nil || !strings.Contains(err.Error(), "name is missing") || asked != 5 {
		t.Errorf("%v after %d requests, want the refusal after 5", err, asked)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.apply(ended, object); err == nil || asked != 5 {
		t.Errorf("%v after %d requests, want an error without another one", err, asked)
	}
}
