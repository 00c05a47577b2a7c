// Package proxy lets peers reach this cluster's API server through the tunnel: an HTTP proxy that understands CONNECT only and leads to
// one place only. It promises that nothing but the API server can be reached by it, that it answers 200 only when the way is open, that
// every refusal says why, and that one source can't use it up. It holds no credentials: what passes is TLS between the peer and the
// API server.
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

// Options are what a Proxy needs to know. All of them have to be set.
type Options struct {
	// Target is where every tunnel ends, host:port: the API server.
	Target string
	// DialTimeout bounds connecting to the target, and asking it whose certificate it has.
	DialTimeout time.Duration
	// PerSource is how many tunnels one address may have at a time, Total how many all together.
	PerSource, Total int
	// Grace is how long tunnels may go on after the end was asked for.
	Grace time.Duration
	Log   *slog.Logger
}

// Proxy is an HTTP handler; Serve runs it.
type Proxy struct {
	opts    Options
	dialer  net.Dialer
	tunnels tunnels
}

// New returns a proxy, or what is wrong with the options.
func New(opts Options) (*Proxy, error) {
	if host, port, err := net.SplitHostPort(opts.Target); err != nil || host == "" || port == "" {
		return nil, fmt.Errorf("--target %q: want host:port of the API server, for example kubernetes.default.svc:443 (leave the flag out for that one)", opts.Target)
	}
	switch {
	case opts.DialTimeout <= 0:
		return nil, fmt.Errorf("--dial-timeout %s: want more than 0, for example 10s", opts.DialTimeout)
	case opts.PerSource <= 0:
		return nil, fmt.Errorf("--max-connections-per-source %d: want at least 1, or no peer gets through", opts.PerSource)
	case opts.Total <= 0:
		return nil, fmt.Errorf("--max-connections %d: want at least 1, or no peer gets through", opts.Total)
	case opts.Grace < 0:
		return nil, fmt.Errorf("--grace %s: want 0 or more", opts.Grace)
	}
	return &Proxy{
		opts:    opts,
		dialer:  net.Dialer{KeepAliveConfig: keepAlive},
		tunnels: tunnels{perSource: opts.PerSource, total: opts.Total, open: map[netip.Addr]int{}, begun: map[*tunnel]struct{}{}},
	}, nil
}

// keepAlive finds out within a minute that a side is gone. There is no limit on silence: watches and kubectl exec are silent by nature.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// Listen opens the port that Serve wants, host:port or :port.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	config := net.ListenConfig{KeepAliveConfig: keepAlive}
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on --listen %s: %w: have it be a free port above 1023, host:port or :port (value proxy.config.listeningPort of the chart)", address, err)
	}
	return listener, nil
}

// Serve answers on the listener until ctx ends, then takes no new connection and returns when the tunnels are gone, after the grace at the
// latest.
func (p *Proxy) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: p,
		// Who has a tunnel does not come under these; who sends nothing, or slowly, does not stay.
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
		return fmt.Errorf("ending: %w", err)
	}
	return nil
}

// ServeHTTP opens a tunnel, or says why not. GET /healthz answers that the proxy runs.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == "/healthz" && r.URL.Host == "" {
		fmt.Fprintln(w, "ok")
		return
	}
	source, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		http.Error(w, "the address of the sender can not be read", http.StatusInternalServerError)
		return
	}
	if refused := p.serve(w, r, source.Addr().Unmap()); refused != nil {
		p.opts.Log.Info("refused", "source", source.Addr(), "method", r.Method, "target", r.Host, "status", refused.status, "reason", refused.reason)
		w.Header().Set("Connection", "close")
		http.Error(w, refused.reason, refused.status)
	}
}

// refusal is an answer other than a tunnel.
type refusal struct {
	status int
	reason string
}

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, source netip.Addr) *refusal {
	if r.Method != http.MethodConnect {
		return refuse(http.StatusMethodNotAllowed, "method %s: this proxy leads to the API server of its cluster, by CONNECT only", r.Method)
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
		return refuse(http.StatusBadGateway, "the API server, %s over TCP, can not be reached from its cluster's proxy: %v", p.opts.Target, err)
	}
	defer shut(upstream)
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return refuse(http.StatusHTTPVersionNotSupported, "%s: CONNECT wants HTTP/1.1 here", r.Proto)
	}
	client, buffered, err := hijacker.Hijack()
	if err != nil {
		return refuse(http.StatusInternalServerError, "taking the connection over: %v", err)
	}
	defer shut(client)
	if !tunnel.begin(client, upstream) {
		return nil // the proxy ends
	}
	if _, err := client.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		return nil // nobody is there to be told
	}
	// What the client sent before it had an answer is part of the stream.
	early, err := buffered.Peek(buffered.Reader.Buffered())
	if err == nil && len(early) > 0 {
		_, err = upstream.Write(early)
	}
	if err == nil {
		exchange(client, upstream)
	}
	return nil
}

func (p *Proxy) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.DialTimeout)
	defer cancel()
	return p.dialer.DialContext(ctx, "tcp", p.opts.Target)
}

// exchange copies both ways until both sides have nothing more to say, or one of them is gone.
func exchange(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { pass(a, b) })
	both.Go(func() { pass(b, a) })
	both.Wait()
}

// farewell is how long one side may still talk after the other said that it has nothing more to say.
const farewell = time.Minute

// pass copies what comes from one side to the other, and the end of it.
func pass(from, to net.Conn) {
	_, err := io.Copy(to, from) // between TCP connections the kernel moves the bytes itself
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		shut(from)
		shut(to)
		return
	}
	_ = to.SetReadDeadline(time.Now().Add(farewell))
}

// shut closes a connection; nobody is left who would want to know that it was broken already.
func shut(conn net.Conn) { _ = conn.Close() }
