package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/metrics"
	"liqo.io/liqo/internal/offload/kubelet"
	"liqo.io/liqo/internal/remote"
)

// Pods gives the kubelet API access to the pods of the node.
type Pods interface {
	// RemoteNamespace returns the remote namespace of a local namespace, false if it has none.
	RemoteNamespace(local string) (string, bool)
	// Local returns the local objects of a kind.
	Local(kind string) []client.Object
}

// Server is the kubelet API of a virtual node. It translates requests for logs, exec, attach and port-forward into requests to the provider's API
// server, which has the same operations under other paths and parameters. Streams pass unmodified and undecoded, whatever their protocol. Terminal
// sizes, exit codes and half-closed streams therefore arrive as they were sent.
type Server struct {
	pods  Pods
	kind  string
	base  *url.URL
	proxy *httputil.ReverseProxy
	stats *stats
	log   *slog.Logger
	// listening is true while Serve accepts connections.
	listening atomic.Bool
}

// NewServer returns the kubelet API of a node. pods.Local returns the node's pods for kind, and identity gives access to the provider's API server.
// The Server re-reads the usage of pods from the provider if the cached usage is older than age, which is usually StatsAge.
func NewServer(identity *remote.Identity, pods Pods, node, kind string, age time.Duration, log *slog.Logger) (*Server, error) {
	transport, err := identity.Transport(streaming)
	if err != nil {
		return nil, err
	}
	base, err := identity.URL()
	if err != nil {
		return nil, err
	}
	// Without a leading slash, JoinPath returns a relative path, which is invalid in a request line.
	base.Path = "/" + strings.TrimPrefix(base.Path, "/")
	s := &Server{pods: pods, kind: kind, base: base, log: log}
	s.stats = &stats{
		pods: pods, kind: kind, node: node, base: base, log: log, clock: clock.RealClock{}, age: age,
		http: http.Client{Transport: transport},
	}
	s.proxy = &httputil.ReverseProxy{
		Rewrite:       func(*httputil.ProxyRequest) {}, // nothing to do: pass has already set the target
		Transport:     transport,
		FlushInterval: -1, // flush at once: a line of a followed log must not wait for the next one
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode == http.StatusSwitchingProtocols {
				return readToTheEnd(resp)
			}
			return plainError(resp)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, context.Canceled) {
				return
			}
			log.Error("Failed to forward a request to the provider", "path", r.URL.Path, "error", err)
			http.Error(w, "forwarding the request to the remote cluster: "+err.Error(), http.StatusBadGateway)
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// streaming returns an HTTP/1.1 transport: HTTP/2 can't upgrade connections.
func streaming(cfg *rest.Config) (http.RoundTripper, error) {
	tlsConfig, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, err
	}
	if tlsConfig == nil {
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	tlsConfig.NextProtos = []string{"http/1.1"}
	proxy := cfg.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	return rest.HTTPWrappersForConfig(cfg, &http.Transport{
		TLSClientConfig: tlsConfig, Proxy: proxy, DialContext: dial, TLSHandshakeTimeout: 10 * time.Second,
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
		MaxIdleConns: 10, IdleConnTimeout: time.Minute, DisableCompression: true,
	})
}

// Handler returns the handler of the kubelet API's endpoints, as far as a virtual node supports them.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		query.Set("container", r.PathValue("container"))
		s.pass(w, r, "log", query)
	})
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		mux.HandleFunc(method+" /exec/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
			s.pass(w, r, "exec", streams(r, r.URL.Query()["command"]))
		})
		mux.HandleFunc(method+" /attach/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
			s.pass(w, r, "attach", streams(r, nil))
		})
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
			query := url.Values{}
			for _, port := range r.URL.Query()["port"] {
				query.Add("ports", port)
			}
			s.pass(w, r, "portforward", query)
		})
	}
	mux.Handle("GET /metrics", metrics.Sweep(http.HandlerFunc(s.stats.kubelet)))
	mux.Handle("GET /metrics/resource", metrics.Sweep(http.HandlerFunc(s.stats.resource)))
	mux.Handle("GET /metrics/cadvisor", metrics.Sweep(http.HandlerFunc(s.stats.cadvisor)))
	// A virtual node has no metrics for these paths: the kubelets of the provider run the probes of the pods, and a virtual node has no components
	// with service level indicators. Monitoring scrapes both paths of every kubelet nevertheless, and reports a node without them as down.
	for _, path := range []string{"/metrics/probes", "/metrics/slis"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { (&exposition{}).respond(w) })
	}
	mux.Handle("GET /stats/summary", metrics.Sweep(http.HandlerFunc(s.stats.summary)))
	mux.HandleFunc("GET /pods", s.list)
	mux.HandleFunc("GET /runningpods/", s.list)
	for _, path := range []string{"/healthz", "/healthz/ping", "/healthz/log", "/healthz/syncloop"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	}
	mux.HandleFunc("GET "+kubelet.PathProviderHealth, s.provider)
	mux.HandleFunc("GET /configz", s.configuration)
	return mux
}

// providerTimeout is how long the API server of the provider may take to respond.
const providerTimeout = 5 * time.Second

// provider asks the API server of the provider whether it is alive. It responds with status 200 if so, else with 503 and the reason.
func (s *Server) provider(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), providerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base.JoinPath("livez").String(), nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	response, err := s.stats.http.Do(request)
	if err != nil {
		http.Error(w, "the API server of the provider does not respond: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		http.Error(w, "the API server of the provider is not alive: status "+response.Status, http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok")
}

// streams translates the query parameters of exec and attach from the kubelet's names to those of the API server.
func streams(r *http.Request, command []string) url.Values {
	out := url.Values{"container": {r.PathValue("container")}}
	for kubelet, api := range map[string]string{"input": "stdin", "output": "stdout", "error": "stderr", "tty": "tty"} {
		if on, err := strconv.ParseBool(r.URL.Query().Get(kubelet)); err == nil && on {
			out.Set(api, "true")
		}
	}
	if len(command) > 0 {
		out["command"] = command
	}
	return out
}

// pass forwards the request to the subresource of the remote Pod. It rejects pods that are not on this node.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, subresource string, query url.Values) {
	namespace, name := r.PathValue("namespace"), r.PathValue("pod")
	remote, mapped := s.pods.RemoteNamespace(namespace)
	if !mapped || !s.has(namespace, name) {
		http.Error(w, fmt.Sprintf("pod %s/%s is not offloaded through this node", namespace, name), http.StatusNotFound)
		return
	}
	out := r.Clone(r.Context())
	target := *s.base
	out.URL = target.JoinPath("api", "v1", "namespaces", remote, "pods", name, subresource)
	out.URL.RawQuery = query.Encode()
	out.Host = out.URL.Host
	// The caller's credentials are for this cluster only, and the provider must not accept the caller's identity headers.
	for header := range out.Header {
		if header == "Authorization" || header == "Cookie" || strings.HasPrefix(header, "Impersonate-") || strings.HasPrefix(header, "X-Remote-") {
			out.Header.Del(header)
		}
	}
	s.proxy.ServeHTTP(w, out)
}

func (s *Server) has(namespace, name string) bool {
	for _, obj := range s.pods.Local(s.kind) {
		if obj.GetNamespace() == namespace && obj.GetName() == name {
			return true
		}
	}
	return false
}

// list responds with the pods of the node from the local cache.
func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []corev1.Pod{}}
	for _, obj := range s.pods.Local(s.kind) {
		if pod, ok := obj.(*corev1.Pod); ok {
			list.Items = append(list.Items, *pod)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(list); err != nil {
		s.log.Debug("Failed to respond with the pods", "error", err)
	}
}

// configuration responds with the kubelet settings that hold for a virtual node, in the format of /configz.
func (s *Server) configuration(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	err := json.NewEncoder(w).Encode(map[string]any{"kubeletconfig": map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
		"authentication":          map[string]any{"anonymous": map[string]bool{"enabled": false}, "webhook": map[string]any{"enabled": true, "cacheTTL": tokenTTL.String()}},
		"authorization":           map[string]any{"mode": "Webhook", "webhook": map[string]any{"cacheAuthorizedTTL": allowTTL.String(), "cacheUnauthorizedTTL": denyTTL.String()}},
		"enableServer":            true,
		"serverTLSBootstrap":      true,
		"enableDebuggingHandlers": true,
	}})
	if err != nil {
		s.log.Debug("Failed to respond with the configuration", "error", err)
	}
}

// readToTheEnd makes the proxy forward everything that the provider sends on an upgraded connection, even if the provider no longer accepts data. A
// command can end before its last input arrives. The provider then sends the output, closes the connection, and resets it when the input arrives.
// ReverseProxy closes the connection to the client after the first error in either direction, so the client would get neither the output nor an
// error.
func readToTheEnd(resp *http.Response) error {
	body, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		return fmt.Errorf("the upgraded connection to the remote cluster is not writable: it is a %T", resp.Body)
	}
	resp.Body = &upgraded{ReadWriteCloser: body}
	return nil
}

// upgraded is an upgraded connection to the provider. When a Write fails, upgraded discards its data and all later data, and reports no error: only
// Read may report that the connection has ended.
type upgraded struct {
	io.ReadWriteCloser
	closed bool
	// end closes the connection when the provider has sent nothing for maxSilence. CloseWrite starts it.
	end atomic.Pointer[time.Timer]
}

// maxSilence is how long a provider may send nothing after the client has stopped sending. The server can't distinguish a client that closed its
// connection from a client that only has no more input. Without this limit, a provider that never closes the connection would hold it and its
// goroutines for ever.
const maxSilence = 10 * time.Minute

// Read reads the output of the provider.
func (u *upgraded) Read(p []byte) (int, error) {
	n, err := u.ReadWriteCloser.Read(p)
	if end := u.end.Load(); end != nil && n > 0 {
		end.Reset(maxSilence)
	}
	return n, err
}

// Write always succeeds.
func (u *upgraded) Write(p []byte) (int, error) {
	if !u.closed {
		_, err := u.ReadWriteCloser.Write(p)
		u.closed = err != nil
	}
	return len(p), nil
}

// CloseWrite signals to the provider that the client sends no more data. Without it, ReverseProxy closes the whole connection. If the provider
// accepts no data any more, the connection stays open too, because the provider may still send output.
func (u *upgraded) CloseWrite() error {
	if !u.closed {
		half, ok := u.ReadWriteCloser.(interface{ CloseWrite() error })
		if !ok || errors.Is(half.CloseWrite(), http.ErrNotSupported) {
			return u.Close()
		}
	}
	u.end.Store(time.AfterFunc(maxSilence, func() { _ = u.ReadWriteCloser.Close() }))
	return nil
}

// Close closes the connection.
func (u *upgraded) Close() error {
	if end := u.end.Load(); end != nil {
		end.Stop()
	}
	return u.ReadWriteCloser.Close()
}

// plainError turns an error response of the provider's API server, a Status, into plain text, as a kubelet responds.
func plainError(resp *http.Response) error {
	if resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	_ = resp.Body.Close()
	if err != nil {
		return fmt.Errorf("reading the answer of the remote cluster: %w", err)
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		body = []byte(status.Message)
		resp.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// Ready returns nil while the kubelet API accepts connections.
func (s *Server) Ready() error {
	if !s.listening.Load() {
		return errors.New("the kubelet API does not listen yet")
	}
	return nil
}

// Serve serves the kubelet API on listen, protected by authorizer, until ctx ends and then returns nil.
func (s *Server) Serve(ctx context.Context, listen string, authorizer *Authorizer, certificate *Certificate) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("serving the kubelet API: %w", err)
	}
	s.listening.Store(true)
	defer s.listening.Store(false)
	server := &http.Server{
		Handler:           authorizer.Wrap(s.Handler()),
		ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, GetCertificate: certificate.Get,
			// TLS only requests a client certificate, without verifying it. The authorizer verifies it, because the client CA may change while the
			// server runs. Clients with a token have no certificate.
			ClientAuth: tls.RequestClientCert,
		},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err = server.ServeTLS(listener, "", "")
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serving the kubelet API on %s: %w", listen, err)
}
