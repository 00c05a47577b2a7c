package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// served runs a service that needs others, and returns its authority.
func served(t *testing.T, name string, needs ...string) string {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second}
	server := httptest.NewServer(identity{Pod: name, Cluster: "rome"}.app(client, needs))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestAppAnswersWithTheTree(t *testing.T) {
	store := served(t, "redis-cart-0")
	web := served(t, "frontend-0", served(t, "cart-0", store), store)
	out, err := do(t, "curl", "-s", "-H", "accept: application/json", web)
	if err != nil {
		t.Fatal(err)
	}
	var said part
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	if !said.whole() || said.Pod != "frontend-0" || said.Address != web || len(said.Needs) != 2 || said.Needs[0].Needs[0].Pod != "redis-cart-0" ||
		said.Needs[1].Service != "127.0.0.1" {
		t.Errorf("%+v", said)
	}
	out, err = do(t, "curl", "--silent", web)
	if err != nil || !strings.HasPrefix(out, "Server address: "+web+"\nServer name: frontend-0\n- 127.0.0.1: cart-0 rome\n  - 127.0.0.1: redis-cart-0 rome\n") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestAppNamesBackendsWithoutResponse(t *testing.T) {
	web := served(t, "frontend-0", served(t, "cart-0", "127.0.0.1:1"))
	response, err := http.Get("http://" + web)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusBadGateway {
		t.Errorf("status %d", response.StatusCode)
	}
	if _, err := do(t, "get", "http://"+web+"/healthz"); err != nil {
		t.Errorf("it is well itself: %v", err)
	}
}

func TestHabits(t *testing.T) {
	if got := habit("/bin/curl", []string{"x"}); len(got) != 2 || got[0] != "curl" {
		t.Errorf("%v", got)
	}
	if got := habit("/testserver", []string{"x"}); len(got) != 1 {
		t.Errorf("%v", got)
	}
	var out bytes.Buffer
	if err := jq([]string{"."}, strings.NewReader(`{"a":[1,"<"]}`), &out); err != nil || out.String() != "{\n  \"a\": [\n    1,\n    \"<\"\n  ]\n}\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	for _, args := range [][]string{{"curl"}, {"curl", "-H", "x", "y"}, {"curl", "127.0.0.1:1"}, {"jq", ".a"}} {
		if _, err := do(t, args...); err == nil {
			t.Errorf("%v went through", args)
		}
	}
}
