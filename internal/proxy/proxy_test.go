package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// apiServer simulates an API server. Its certificate is for 127.0.0.1, ::1 and example.com, and it responds with the requested host.
func apiServer(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s", r.Host) }))
	t.Cleanup(server.Close)
	return server
}

// start runs a proxy in front of the target. stop ends the proxy and returns the result of Serve.
func start(t *testing.T, target string, change func(*Options)) (address string, stop func() error) {
	t.Helper()
	opts := Options{Target: target, DialTimeout: 5 * time.Second, PerSource: 3, Total: 5, Grace: 5 * time.Second, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&opts)
	}
	p, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, listener) }()
	ended := false
	stop = func() error {
		ended = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if !ended {
			stop()
		}
	})
	return listener.Addr().String(), stop
}

// ask sends the text of one request, and returns the answer, its body, and the connection.
func ask(t *testing.T, proxy, request string) (status int, body string, conn net.Conn, rest *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	rest = bufio.NewReader(conn)
	response, err := http.ReadResponse(rest, &http.Request{Method: strings.Fields(request)[0]})
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	if response.StatusCode != http.StatusOK || response.Request.Method != http.MethodConnect {
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		body = string(text)
	}
	return response.StatusCode, body, conn, rest
}

// TestTunnelToTheAPIServer does as client-go does with a proxy-url in the kubeconfig: it opens a verified TLS connection through the proxy, for each name of
// the API server.
func TestTunnelToTheAPIServer(t *testing.T) {
	server := apiServer(t)
	proxy, _ := start(t, server.Listener.Addr().String(), nil)
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})
	t.Cleanup(transport.CloseIdleConnections)
	for _, host := range []string{"example.com", "127.0.0.1:6443", "[::1]:16443"} {
		response, err := (&http.Client{Transport: transport}).Get("https://" + host + "/version")
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || string(text) != "hello "+host {
			t.Errorf("%s: %q, %v", host, text, err)
		}
	}
}

// TestRefusals: only the API server can be reached, and each refusal contains its reason.
func TestRefusals(t *testing.T) {
	server := apiServer(t)
	proxy, _ := start(t, server.Listener.Addr().String(), nil)
	// The port of a closed listener, where no server responds.
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	orphan, _ := start(t, dead.Addr().String(), nil)
	// A server that is no API server: it closes connections at once.
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })
	go func() {
		for conn, err := mute.Accept(); err == nil; conn, err = mute.Accept() {
			conn.Close()
		}
	}()
	misled, _ := start(t, mute.Addr().String(), nil)
	for _, test := range []struct {
		proxy, request string
		status         int
		reason         string
	}{
		{proxy, "CONNECT 10.0.0.1:443 HTTP/1.1\r\nHost: 10.0.0.1:443\r\n\r\n", http.StatusForbidden, "10.0.0.1 is not one of its names (example.com"},
		{proxy, "CONNECT metadata.internal:80 HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusForbidden, "connects to the API server of its cluster only"},
		{proxy, "CONNECT example.com HTTP/1.1\r\nHost: example.com\r\n\r\n", http.StatusBadRequest, "want host:port"},
		{proxy, "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", http.StatusMethodNotAllowed, "only CONNECT"},
		{proxy, "GET http://example.com/healthz HTTP/1.1\r\nHost: example.com\r\n\r\n", http.StatusMethodNotAllowed, "only CONNECT"},
		{proxy, "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", http.StatusMethodNotAllowed, "only CONNECT"},
		{proxy, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", http.StatusOK, "ok"},
		{orphan, "CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusBadGateway, dead.Addr().String() + " over TCP"},
		{misled, "CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusBadGateway, "does not answer"},
	} {
		status, body, _, _ := ask(t, test.proxy, test.request)
		if status != test.status || !strings.Contains(body, test.reason) {
			t.Errorf("%q: %d %q, want %d %q", test.request, status, body, test.status, test.reason)
		}
	}
}

// TestEarlyBytesArePartOfTheStream: a client may send TLS data before it receives the answer of the proxy.
func TestEarlyBytesArePartOfTheStream(t *testing.T) {
	server := apiServer(t)
	proxy, _ := start(t, server.Listener.Addr().String(), nil)
	conn, err := net.Dial("tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	early := &eager{Conn: conn, before: "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n"}
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com"
	if err := tls.Client(early, config).HandshakeContext(t.Context()); err != nil {
		t.Error(err)
	}
}

// eager sends the request and the first bytes of the stream at once, and skips the answer.
type eager struct {
	net.Conn
	before string
	reader *bufio.Reader
}

func (e *eager) Write(data []byte) (int, error) {
	if e.before == "" {
		return e.Conn.Write(data)
	}
	both := append([]byte(e.before), data...)
	e.before = ""
	_, err := e.Conn.Write(both)
	return len(data), err
}

func (e *eager) Read(data []byte) (int, error) {
	if e.reader == nil {
		e.reader = bufio.NewReader(e.Conn)
		if _, err := http.ReadResponse(e.reader, &http.Request{Method: http.MethodConnect}); err != nil {
			return 0, err
		}
	}
	return e.reader.Read(data)
}

// TestOneSourceDoesNotUseTheProxyUp: a source that has reached its limit can open another tunnel after one of its tunnels has ended.
func TestOneSourceDoesNotUseTheProxyUp(t *testing.T) {
	server := apiServer(t)
	proxy, _ := start(t, server.Listener.Addr().String(), nil)
	const request = "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n"
	var conns []net.Conn
	for range 3 {
		status, body, conn, _ := ask(t, proxy, request)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		conns = append(conns, conn)
	}
	if status, body, _, _ := ask(t, proxy, request); status != http.StatusTooManyRequests || !strings.Contains(body, "127.0.0.1 has 3 open connections") {
		t.Errorf("%d %q", status, body)
	}
	conns[0].Close()
	for deadline := time.Now().Add(10 * time.Second); ; {
		status, body, _, _ := ask(t, proxy, request)
		if status == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d %q", status, body)
		}
	}
}

// TestTheEndIsGraceful: during shutdown, the proxy opens no new tunnel. Open tunnels continue until they end or the grace period is over.
func TestTheEndIsGraceful(t *testing.T) {
	server := apiServer(t)
	const request = "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n"
	t.Run("waits for tunnels", func(t *testing.T) {
		proxy, stop := start(t, server.Listener.Addr().String(), func(o *Options) { o.Grace = time.Minute })
		_, _, conn, rest := ask(t, proxy, request)
		done := make(chan error, 1)
		go func() { done <- stop() }()
		// Wait until the listener is closed. The open tunnel still works.
		for {
			probe, err := net.Dial("tcp", proxy)
			if err != nil {
				break
			}
			probe.Close()
		}
		config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		config.ServerName = "example.com"
		client := tls.Client(&answered{conn, rest}, config)
		if err := client.HandshakeContext(t.Context()); err != nil {
			t.Error(err)
		}
		select {
		case err := <-done:
			t.Fatalf("ended while a tunnel was open: %v", err)
		default:
		}
		client.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("but not for ever", func(t *testing.T) {
		proxy, stop := start(t, server.Listener.Addr().String(), func(o *Options) { o.Grace = 50 * time.Millisecond })
		_, _, _, rest := ask(t, proxy, request)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if _, err := rest.ReadByte(); err == nil {
			t.Error("the tunnel is still open")
		}
	})
}

// answered is a connection that first returns the data that was buffered with the answer.
type answered struct {
	net.Conn
	rest *bufio.Reader
}

func (a *answered) Read(data []byte) (int, error) { return a.rest.Read(data) }

// TestOptions: New refuses invalid options.
func TestOptions(t *testing.T) {
	good := Options{Target: "a:1", DialTimeout: 1, PerSource: 1, Total: 1}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Options){
		`--target "kubernetes.default.svc": want host:port of the API server`: func(o *Options) { o.Target = "kubernetes.default.svc" },
		`--target ":443": want host:port`:                                     func(o *Options) { o.Target = ":443" },
		"--dial-timeout 0s: want more than 0":                                 func(o *Options) { o.DialTimeout = 0 },
		"--max-connections-per-source 0: want at least 1":                     func(o *Options) { o.PerSource = 0 },
		"--max-connections -1: want at least 1":                               func(o *Options) { o.Total = -1 },
		"--grace -1ns: want 0 or more":                                        func(o *Options) { o.Grace = -1 },
	} {
		bad := good
		change(&bad)
		if _, err := New(bad); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", bad, err, want)
		}
	}
	taken, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	_, err = Listen(t.Context(), taken.Addr().String())
	if want := "listening on --listen " + taken.Addr().String(); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "proxy.config.listeningPort") {
		t.Errorf("a port that is taken: %v, want %s and a cure", err, want)
	}
}

// TestASideThatStopsTalkingIsLeftToListen: if one side closes its sending direction, the proxy passes that on, and the other side has a minute to send the
// rest.
func TestASideThatStopsTalkingIsLeftToListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, clientSide := halves()
		serverSide, server := halves()
		ended := make(chan struct{})
		go func() {
			exchange(clientSide, serverSide)
			close(ended)
		}()
		client.CloseWrite()
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the end did not arrive: %v", err)
		}
		go server.Write([]byte("x"))
		if _, err := client.Read(make([]byte, 1)); err != nil {
			t.Errorf("the rest did not arrive: %v", err)
		}
		began := time.Now()
		<-ended
		if took := time.Since(began); took != farewell {
			t.Errorf("the silent side was left after %s", took)
		}
	})
}

// half is one side of a connection in memory whose sending direction can be closed separately.
type half struct {
	in, out net.Conn
}

func halves() (a, b *half) {
	aToB, bFromA := net.Pipe()
	bToA, aFromB := net.Pipe()
	return &half{in: aFromB, out: aToB}, &half{in: bFromA, out: bToA}
}

func (h *half) Read(data []byte) (int, error)      { return h.in.Read(data) }
func (h *half) Write(data []byte) (int, error)     { return h.out.Write(data) }
func (h *half) CloseWrite() error                  { return h.out.Close() }
func (h *half) SetReadDeadline(t time.Time) error  { return h.in.SetReadDeadline(t) }
func (h *half) SetWriteDeadline(t time.Time) error { return h.out.SetWriteDeadline(t) }
func (h *half) SetDeadline(time.Time) error        { return nil }
func (h *half) LocalAddr() net.Addr                { return h.in.LocalAddr() }
func (h *half) RemoteAddr() net.Addr               { return h.in.RemoteAddr() }
func (h *half) Close() error {
	h.in.Close()
	return h.out.Close()
}
