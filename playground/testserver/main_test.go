package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// start runs a server on free ports and returns their addresses.
func start(t *testing.T) (web, datagrams string) {
	t.Helper()
	t.Setenv("POD_NAME", "pod-7")
	t.Setenv("NODE_NAME", "")
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-http", "127.0.0.1:0", "-udp", "127.0.0.1:0", "-stream", ""}, writer)
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("server ended with %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("server did not end")
		}
	})
	lines := bufio.NewScanner(reader)
	for web == "" || datagrams == "" {
		if !lines.Scan() {
			t.Fatal("the server said nothing of its addresses")
		}
		_, address, _ := strings.Cut(lines.Text(), "address=")
		if strings.Contains(lines.Text(), "protocol=http") {
			web = address
		} else {
			datagrams = address
		}
	}
	go io.Copy(io.Discard, reader)
	return web, datagrams
}

func do(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), args, &out)
	return out.String(), err
}

func TestEcho(t *testing.T) {
	web, datagrams := start(t)
	got, err := do(t, "get", "http://"+web+"/a?b=c")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pod: pod-7\n", "remote: 127.0.0.1:", "local: " + web + "\n", "request: GET /a?b=c\n", "host: " + web + "\n", "header: User-Agent: "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if got, err := do(t, "get", "-data", "some text", "http://"+web+"/"); err != nil || !strings.Contains(got, "request: POST /\n") || !strings.HasSuffix(got, "\n\nsome text") {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := do(t, "get", "http://"+web+"/healthz", "http://"+web+"/bytes?n=3"); err != nil || got != "ok\n\x00\x00\x00" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := do(t, "get", "http://"+web+"/bytes?n=-1"); err == nil {
		t.Error("status 400 was no error")
	}
	if got, err := do(t, "udp", datagrams, "ping"); err != nil || !strings.HasPrefix(got, "pod: pod-7 remote: 127.0.0.1:") || !strings.HasSuffix(got, " bytes: 4 message: \"ping\"\n") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestLargeBodyComesBackWhole(t *testing.T) {
	web, _ := start(t)
	body := strings.Repeat("0123456789abcdef", 1<<16)
	response, err := http.Post("http://"+web, "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil || !strings.HasSuffix(string(got), "\n\n"+body) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestEchoAsJSON(t *testing.T) {
	web, _ := start(t)
	request, err := http.NewRequest(http.MethodGet, "http://"+web+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var got answer
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Pod != "pod-7" || got.URL != "/x" || !strings.HasPrefix(got.Remote, "127.0.0.1:") {
		t.Errorf("%+v", got)
	}
}

func TestUnansweredDatagramFails(t *testing.T) {
	_, err := do(t, "udp", "-timeout", "50ms", "127.0.0.1:9", "ping")
	if err == nil {
		t.Error("no error")
	}
}

func TestSmallCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if _, err := do(t, "write", file, "text"); err != nil {
		t.Fatal(err)
	}
	if got, err := do(t, "cat", file, file); err != nil || got != "texttext" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := do(t, "cat", file+".missing"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if got, err := do(t, "lookup", "127.0.0.1"); err != nil || got != "127.0.0.1 127.0.0.1\n" {
		t.Errorf("%q, %v", got, err)
	}
	for _, duration := range []string{"0", "1ms"} {
		if _, err := do(t, "sleep", duration); err != nil {
			t.Error(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ended, []string{"sleep", "infinity"}, io.Discard); err != nil {
		t.Error(err)
	}
	var code exitCode
	if _, err := do(t, "exit", "7"); !errors.As(err, &code) || code != 7 {
		t.Error(err)
	}
	for _, args := range [][]string{{"dance"}, {"sleep"}, {"sleep", "long"}, {"get"}, {"udp", "x"}, {"probe"}, {"stream"}, {"stream", "-rate", "-1", "x:1"}, {"rtt"}, {"rtt", "-count", "0", "x:1"}, {"exit", "300"}, {"write", "x"}, {"serve", "x"}, {"cat"}, {"lookup"}} {
		if _, err := do(t, args...); !errors.Is(err, errUsage) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
