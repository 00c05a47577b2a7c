// Package proxy lets peers reach the API server of this cluster through the tunnel. It is an HTTP proxy that supports only CONNECT,
// and only to one target. It guarantees the following:
//
//   - Clients reach nothing but the API server.
//   - The proxy answers 200 only when the connection to the target is open.
//   - Every refusal states its reason.
//   - One source cannot use up all connections.
//
// A source is the address of a connection, not a peer. The proxy can't distinguish peers, so there is no share for each peer:
//
//   - Peers call a Service, and their gateways hand such packets to their own nodes, which masquerade them. All peers whose active gateways run
//     on one node are one source.
//   - All peers request the same target, the API server.
//   - The identity of a peer is inside the TLS that the proxy forwards, so only the API server can read it. Other claims of a client about
//     itself may be false.
//
// So a peer can use up the connections of the peers whose gateways run on the same node. A client with many addresses, such as the pods that a
// peer offloaded to this cluster, is many sources, and only the limit of all connections bounds them together.
//
// The proxy holds no credentials: the tunneled data is TLS between the peer and the API server.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Options are the options of a Proxy. All of them must be set.
type Options struct {
	// Target is the address of the API server (host:port), to which every tunnel leads.
	Target string
	// DialTimeout limits the time to connect to the target, and the time to read its certificate.
	DialTimeout time.Duration
	// PerSource is the maximum number of open tunnels of one source address, Total the maximum of all together.
	PerSource, Total int
	// Grace is how long open tunnels may continue after the shutdown has started.
	Grace time.Duration
	Log   *slog.Logger
}

// Proxy is an HTTP handler; Serve runs it.
type Proxy struct {
	opts    Options
	dialer  net.Dialer
	tunnels tunnels
}

// New returns a Proxy, or an error that says which option is wrong.
func New(opts Options) (*Proxy, error) {
	if host, port, err := net.SplitHostPort(opts.Target); err != nil || host == "" || port == "" {
		return nil, fmt.Errorf("--target %q: want host:port of the API server, for example kubernetes.default.svc:443 (leave the flag out for that one)", opts.Target)
	}
	switch {
	case opts.DialTimeout <= 0:
		return nil, fmt.Errorf("--dial-timeout %s: want more than 0, for example 10s", opts.DialTimeout)
	case opts.PerSource <= 0:
		return nil, fmt.Errorf("--max-connections-per-source %d: want at least 1, otherwise no peer can connect", opts.PerSource)
	case opts.Total <= 0:
		return nil, fmt.Errorf("--max-connections %d: want at least 1, otherwise no peer can connect", opts.Total)
	case opts.Grace < 0:
		return nil, fmt.Errorf("--grace %s: want 0 or more", opts.Grace)
	}
	return &Proxy{
		opts:    opts,
		dialer:  net.Dialer{KeepAliveConfig: keepAlive},
		tunnels: tunnels{perSource: opts.PerSource, total: opts.Total, open: map[netip.Addr]int{}, begun: map[*tunnel]struct{}{}},
	}, nil
}

// keepAlive detects within a minute that one side has disappeared. There is no idle timeout, because watches and kubectl exec are often silent.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// Listen opens the TCP listener for Serve. The address is host:port or :port.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	config := net.ListenConfig{KeepAliveConfig: keepAlive}
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on --listen %s: %w: give a free port above 1023, as host:port or :port (value proxy.config.listeningPort of the chart)", address, err)
	}
	return listener, nil
}

// Serve serves the listener until ctx ends. Then it accepts no new connection, waits for the open tunnels at most for the grace
// period, and returns.
func (p *Proxy) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: p,
		// These limits end the connections of idle or slow clients. They do not apply to open tunnels.
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          slog.NewLogLogger(p.opts.Log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.opts.Grace)
	defer cancel()
	p.tunnels.stop()
	err := server.Shutdown(end)
	p.tunnels.wait(end)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("shutting down: %w", err)
	}
	return nil
}

// ServeHTTP opens a tunnel, or answers with the reason of a refusal. GET /healthz succeeds while the proxy runs.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == "/healthz" && r.URL.Host == "" {
		fmt.Fprintln(w, "ok")
		return
	}
	source, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		http.Error(w, "the address of the sender cannot be read", http.StatusInternalServerError)
		return
	}
	if refused := p.serve(w, r, source.Addr().Unmap()); refused != nil {
		p.opts.Log.Info("Refused a request", "source", source.Addr(), "method", r.Method, "target", r.Host, "status", refused.status, "reason", refused.reason)
		w.Header().Set("Connection", "close")
		http.Error(w, refused.reason, refused.status)
	}
}

// refusal is an answer that opens no tunnel.
type refusal struct {
	status int
	reason string
}

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, source netip.Addr) *refusal {
	if r.Method != http.MethodConnect {
		return refuse(http.StatusMethodNotAllowed, "method %s: this proxy accepts only CONNECT, to the API server of its cluster", r.Method)
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil || host == "" {
		return refuse(http.StatusBadRequest, "CONNECT %s: want host:port", r.Host)
	}
	tunnel, refused := p.tunnels.reserve(source)
	if refused != nil {
		return refused
	}
	defer tunnel.release()
	if refused := p.check(r.Context(), host, r.Host); refused != nil {
		return refused
	}
	upstream, err := p.dial(r.Context())
	if err != nil {
		return refuse(http.StatusBadGateway, "the proxy cannot reach the API server of its cluster, %s over TCP: %v", p.opts.Target, err)
	}
	defer shut(upstream)
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return refuse(http.StatusHTTPVersionNotSupported, "%s: this proxy requires HTTP/1.1 for CONNECT", r.Proto)
	}
	client, buffered, err := hijacker.Hijack()
	if err != nil {
		return refuse(http.StatusInternalServerError, "taking over the connection: %v", err)
	}
	defer shut(client)
	if !tunnel.begin(client, upstream) {
		return nil // the proxy is shutting down
	}
	if _, err := client.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		return nil // the client closed the connection
	}
	// Data that the client sent before it received the answer is part of the stream.
	early, err := buffered.Peek(buffered.Reader.Buffered())
	if err == nil && len(early) > 0 {
		_, err = upstream.Write(early)
	}
	if err == nil {
		exchange(client, upstream)
	}
	return nil
}

// Open returns the number of open tunnels.
func (p *Proxy) Open() int {
	p.tunnels.mu.Lock()
	defer p.tunnels.mu.Unlock()
	return p.tunnels.count
}

func (p *Proxy) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.DialTimeout)
	defer cancel()
	return p.dialer.DialContext(ctx, "tcp", p.opts.Target)
}

// exchange copies data in both directions until both sides have finished sending, or one of them has disconnected.
func exchange(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { pass(a, b) })
	both.Go(func() { pass(b, a) })
	both.Wait()
}

// farewell is how long one side may still send after the other side has finished.
const farewell = time.Minute

// pass copies the data of one side to the other. At the end of the data it closes the sending direction of the other side.
func pass(from, to net.Conn) {
	_, err := io.Copy(to, from) // between TCP connections, the kernel copies the data
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		shut(from)
		shut(to)
		return
	}
	_ = to.SetReadDeadline(time.Now().Add(farewell))
}

// shut closes a connection. The error does not matter, because the connection is no longer used.
func shut(conn net.Conn) { _ = conn.Close() }
