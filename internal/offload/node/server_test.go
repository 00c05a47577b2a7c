package node

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload/kubelet"
	"liqo.io/liqo/internal/remote"
)

// onePod is a node with the pod shop/web, whose namespace is called shop-rome in the provider.
type onePod struct{}

func (onePod) RemoteNamespace(local string) (string, bool) {
	return local + "-rome", local == "shop" || local == "other"
}
func (onePod) Local(string) []client.Object {
	return []client.Object{&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}, {Name: "d"}}},
	}}
}

// lateInput is a connection to a provider whose command ends before its input arrives: the provider refuses the input, and its output can be read only after
// that.
type lateInput struct {
	refused chan struct{}
	once    sync.Once
	output  io.Reader
	closed  atomic.Bool
}

func (l *lateInput) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Body: l,
		Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}},
	}, nil
}

func (l *lateInput) Write([]byte) (int, error) {
	l.once.Do(func() { close(l.refused) })
	return 0, syscall.ECONNRESET
}

func (l *lateInput) Read(p []byte) (int, error) {
	<-l.refused
	time.Sleep(50 * time.Millisecond) // delay the output as a busy machine would; a proxy that stops at the first error has closed the connection by then
	if l.closed.Load() {
		return 0, net.ErrClosed
	}
	return l.output.Read(p)
}

func (l *lateInput) CloseWrite() error { return nil }
func (l *lateInput) Close() error      { l.closed.Store(true); return nil }

// startKubelet serves a Server before a provider whose API server is handler.
func startKubelet(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	provider := httptest.NewServer(handler)
	t.Cleanup(provider.Close)
	cfg := &rest.Config{Host: provider.URL, BearerToken: "ours"}
	remote.Tune(cfg)
	s, err := NewServer(remote.IdentityOf(cfg), onePod{}, "milan", "Pod", StatsAge, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	return server
}

func TestRequestsAreRenamed(t *testing.T) {
	for _, test := range []struct{ method, path, want string }{
		{"GET", "/containerLogs/shop/web/c?follow=true&tailLines=5&timestamps=true", "GET /api/v1/namespaces/shop-rome/pods/web/log?container=c&follow=true&tailLines=5&timestamps=true"},
		{"POST", "/exec/shop/web/c?command=ls&command=-l&input=1&output=1&error=1", "POST /api/v1/namespaces/shop-rome/pods/web/exec?command=ls&command=-l&container=c&stderr=true&stdin=true&stdout=true"},
		{"GET", "/exec/shop/web/c?command=sh&input=1&output=1&tty=1", "GET /api/v1/namespaces/shop-rome/pods/web/exec?command=sh&container=c&stdin=true&stdout=true&tty=true"},
		{"POST", "/attach/shop/web/c?output=1", "POST /api/v1/namespaces/shop-rome/pods/web/attach?container=c&stdout=true"},
		{"POST", "/portForward/shop/web", "POST /api/v1/namespaces/shop-rome/pods/web/portforward"},
		{"GET", "/portForward/shop/web?port=80", "GET /api/v1/namespaces/shop-rome/pods/web/portforward?ports=80"},
	} {
		t.Run(test.path, func(t *testing.T) {
			var got string
			server := startKubelet(t, func(w http.ResponseWriter, r *http.Request) {
				got = strings.TrimSuffix(r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery, "?")
				if r.Header.Get("Authorization") != "Bearer ours" || r.Header.Get("Impersonate-User") != "" {
					t.Errorf("credentials %v", r.Header)
				}
			})
			req, _ := http.NewRequestWithContext(t.Context(), test.method, server.URL+test.path, nil)
			req.Header.Set("Authorization", "Bearer theirs")
			req.Header.Set("Impersonate-User", "admin")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if got != test.want {
				t.Errorf("\n got %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestOnlyPodsOfTheNode(t *testing.T) {
	server := startKubelet(t, func(http.ResponseWriter, *http.Request) { t.Error("the provider was asked") })
	for _, path := range []string{"/containerLogs/shop/other/c", "/containerLogs/kube-system/web/c", "/containerLogs/other/web/c", "/run/shop/web/c"} {
		resp, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}

func TestErrorsAreReadable(t *testing.T) {
	server := startKubelet(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"kind":"Status","status":"Failure","message":"container c is waiting to start","code":400}`)
	})
	resp, err := http.Get(server.URL + "/containerLogs/shop/web/c")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusBadRequest || string(body) != "container c is waiting to start" {
		t.Errorf("%s: %s", resp.Status, body)
	}
}

func TestRedirectsAreRejected(t *testing.T) {
	server := startKubelet(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://169.254.169.254/", http.StatusTemporaryRedirect)
	})
	here := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := here.Get(server.URL + "/containerLogs/shop/web/c")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadGateway || resp.Header.Get("Location") != "" {
		t.Errorf("%s to %q", resp.Status, resp.Header.Get("Location"))
	}
}

func TestFollowedLogsArriveLineByLine(t *testing.T) {
	next := make(chan struct{})
	server := startKubelet(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, line := range []string{"one\n", "two\n"} {
			_, _ = io.WriteString(w, line)
			w.(http.Flusher).Flush()
			<-next
		}
	})
	resp, err := http.Get(server.URL + "/containerLogs/shop/web/c?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewReader(resp.Body)
	for _, want := range []string{"one\n", "two\n"} {
		if got, err := lines.ReadString('\n'); err != nil || got != want {
			t.Fatalf("%q, %v", got, err)
		}
		next <- struct{}{}
	}
}

// TestStreamsPassUntouched upgrades a connection to a protocol that neither side of the Server knows.
func TestStreamsPassUntouched(t *testing.T) {
	server := startKubelet(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "SPDY/3.1" || r.Header.Get("X-Stream-Protocol-Version") != "v5" {
			t.Errorf("headers %v", r.Header)
		}
		conn, buffer, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v5\r\n\r\n")
		line, _ := buffer.ReadString('\n')
		_, _ = io.WriteString(conn, "you said "+line)
	})
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "POST /exec/shop/web/c?command=sh&input=1&output=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v5\r\n\r\n")
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("X-Stream-Protocol-Version") != "v5" {
		t.Fatalf("%+v, %v", resp, err)
	}
	_, _ = io.WriteString(conn, "hello\n")
	if line, err := reader.ReadString('\n'); err != nil || line != "you said hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestOutputArrivesThoughTheInputIsRefused(t *testing.T) {
	for _, ends := range []bool{false, true} {
		t.Run(fmt.Sprintf("the client ends its input: %t", ends), func(t *testing.T) {
			s, err := NewServer(remote.IdentityOf(&rest.Config{Host: "http://127.0.0.1:1"}), onePod{}, "milan", "Pod", StatsAge, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			s.proxy.Transport = &lateInput{refused: make(chan struct{}), output: strings.NewReader("the output\n")}
			server := httptest.NewServer(s.Handler())
			t.Cleanup(server.Close)
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(server.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "POST /exec/shop/web/c?command=sh&input=1&output=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
			reader := bufio.NewReader(conn)
			if resp, err := http.ReadResponse(reader, nil); err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%+v, %v", resp, err)
			}
			for range 3 {
				_, _ = io.WriteString(conn, "input\n")
			}
			if ends {
				_ = conn.(*net.TCPConn).CloseWrite()
			}
			if got, err := reader.ReadString('\n'); err != nil || got != "the output\n" {
				t.Errorf("%q, %v", got, err)
			}
			if rest, err := reader.ReadString('\n'); err != io.EOF {
				t.Errorf("the connection goes on with %q, %v", rest, err)
			}
		})
	}
}

// endless is a connection to a provider that ignores the end of the client's data.
type endless struct{ net.Conn }

func (endless) CloseWrite() error { return nil }

// TestSilentProvidersEnd: a provider may keep sending after the client has stopped, but the connection is closed when the provider sends nothing for
// maxSilence.
func TestSilentProvidersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		u := &upgraded{ReadWriteCloser: endless{here}}
		began := time.Now()
		go func() {
			time.Sleep(time.Hour) // the client still sends
			_ = u.CloseWrite()
			time.Sleep(maxSilence - time.Second)
			_, _ = io.WriteString(there, "late")
		}()
		output, err := io.ReadAll(u)
		if took := time.Since(began); string(output) != "late" || err == nil || took != time.Hour+2*maxSilence-time.Second {
			t.Errorf("%q, %v after %s", output, err, took)
		}
	})
}

// TestHealthOfTheProvider: the node says whether the provider responds now, not whether it did before.
func TestHealthOfTheProvider(t *testing.T) {
	status := atomic.Int32{}
	node := startKubelet(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/livez" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(int(status.Load()))
	})
	for provider, want := range map[int32]int{http.StatusOK: http.StatusOK, http.StatusInternalServerError: http.StatusServiceUnavailable, http.StatusUnauthorized: http.StatusServiceUnavailable} {
		status.Store(provider)
		resp, err := http.Get(node.URL + kubelet.PathProviderHealth)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("the provider responds with %d: %d, want %d", provider, resp.StatusCode, want)
		}
	}
	s, err := NewServer(remote.IdentityOf(&rest.Config{Host: "http://127.0.0.1:1"}), onePod{}, "milan", "Pod", StatsAge, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, kubelet.PathProviderHealth, nil))
	if answer.Code != http.StatusServiceUnavailable {
		t.Errorf("the provider is gone: %d %s", answer.Code, answer.Body)
	}
}
