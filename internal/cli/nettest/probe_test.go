package nettest

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestRedirectsOfNodePortsAreNotFollowed: a pod behind a node port sends the administrator's machine nowhere else.
func TestRedirectsOfNodePortsAreNotFollowed(t *testing.T) {
	reached := make(chan string, 1)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached <- r.URL.Path }))
	defer elsewhere.Close()
	port := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/loot", http.StatusFound))
	defer port.Close()
	if outcomes := askFromHere(t.Context(), []string{port.URL}); outcomes[0].Error == "" {
		t.Errorf("a redirect of a node port is no error: %+v", outcomes[0])
	}
	select {
	case path := <-reached:
		t.Errorf("the redirect to %s was followed", path)
	default:
	}
}
