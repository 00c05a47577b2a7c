// Package server serves the page of the dashboard on a loopback address, to the one browser that has the token.
//
// The page itself holds nothing secret, and is served to every user of this machine. Data about the clusters needs a session: the page
// exchanges the token, which is valid once, for the key of the session, and sends the key in the Authorization header. The key is not in a cookie,
// because browsers send the cookies of 127.0.0.1 to the servers at all ports, which may belong to other users. The server refuses requests with
// another Host header, so that no web site can reach it under a name of its own (DNS rebinding). No response allows other origins to read it. The
// server changes nothing in any cluster.
package server

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"liqo.io/liqo/internal/dashboard"
)

const (
	// keepAlive is the interval of comments in an idle stream. They let each side detect that the connection is lost.
	keepAlive = 15 * time.Second
	// defaultPort is the port that browsers leave out of the Host header.
	defaultPort = "80"
	// bodyLimit is the maximum size of a request, in bytes.
	bodyLimit = 4096
	// contentPolicy lets the page load its own files and connect to this server, and nothing else.
	contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// Options configure the server.
type Options struct {
	// Address is the host and port that the server listens on.
	Address string
	// Page has the files of the page; index.html is the first one.
	Page fs.FS
	// Feed has the documents to show.
	Feed *Feed
	// Explain returns the path between two ends, or why there is none to explain.
	Explain func(ctx context.Context, from, to string) (any, error)
}

// Server is the HTTP handler of the dashboard.
type Server struct {
	options Options
	handler http.Handler
	hosts   []string

	mu sync.Mutex // guards the fields below
	// token is empty once it was used. session is empty before.
	token, session string
}

// New returns a server with a new token.
func New(options Options) (*Server, error) {
	host, port, err := net.SplitHostPort(options.Address)
	if err != nil {
		return nil, fmt.Errorf("address %q of the dashboard: %w", options.Address, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("address %q of the dashboard: it must be a loopback address such as 127.0.0.1: the page is for this machine only", options.Address)
	}
	s := &Server{options: options, hosts: []string{options.Address, net.JoinHostPort("localhost", port)}, token: rand.Text()}
	if port == defaultPort {
		s.hosts = append(s.hosts, strings.TrimSuffix(options.Address, ":"+port), "localhost")
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(options.Page))
	mux.HandleFunc("POST /api/session", s.openSession)
	mux.Handle("GET /api/stream", s.authorized(s.stream))
	mux.Handle("GET /api/explain", s.authorized(s.explain))
	mux.Handle("GET /api/", s.authorized(http.NotFound))
	s.handler = mux
	return s, nil
}

// URL returns the address to open in a browser. The token is in its fragment, which browsers send to no server.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "http://" + s.options.Address + "/#" + s.token
}

// ServeHTTP checks what all requests have in common, and sets the headers that all responses have.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	if !s.knows(r.Host) {
		refuse(w, http.StatusMisdirectedRequest, "host %q is not the dashboard: open http://%s", r.Host, s.options.Address)
		return
	}
	// Browsers send the origin of a request. Pages from other ports of this machine count as other sites.
	if site := r.Header.Get("Sec-Fetch-Site"); strings.HasPrefix(r.URL.Path, "/api/") && site != "" && site != "same-origin" {
		refuse(w, http.StatusForbidden, "requests of other sites are refused")
		return
	}
	s.handler.ServeHTTP(w, r)
}

func (s *Server) knows(host string) bool {
	for _, known := range s.hosts {
		if host == known {
			return true
		}
	}
	return false
}

// refuse answers with an error in plain text.
func refuse(w http.ResponseWriter, code int, format string, args ...any) {
	http.Error(w, fmt.Sprintf(format, args...), code)
}

// openSession exchanges the token for the key of the session.
func (s *Server) openSession(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit)).Decode(&body); err != nil {
		refuse(w, http.StatusBadRequest, "the request is not {\"token\": ...}: %v", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == "" || !same(body.Token, s.token) {
		refuse(w, http.StatusUnauthorized, "the token is wrong or was used already: run liqoctl dashboard again for another one")
		return
	}
	s.token, s.session = "", rand.Text()
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, "{%q:%q}\n", "session", s.session) // the browser has closed the connection
}

// same compares secrets in constant time.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// authorized calls the handler if the request has the key of the session.
func (s *Server) authorized(handler http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		session := s.session
		s.mu.Unlock()
		given, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !is || session == "" || !same(given, session) {
			refuse(w, http.StatusUnauthorized, "open the address that liqoctl dashboard has printed")
			return
		}
		handler(w, r)
	})
}

// update is one message of a stream. If First is set, the page discards its previous documents.
type update struct {
	First bool `json:"first,omitempty"`
	dashboard.Patch
}

// stream sends all documents, and then each change, as server-sent events.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	var sent dashboard.Documents
	for first := true; ; {
		documents, newer := s.options.Feed.Latest()
		if patch := dashboard.Diff(sent, documents); first || !patch.Empty() {
			data, err := json.Marshal(update{First: first, Patch: patch})
			if err != nil {
				return // documents are valid JSON
			}
			if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil || control.Flush() != nil {
				return
			}
			sent, first = documents, false
		}
		select {
		case <-r.Context().Done():
			return
		case <-newer:
		case <-alive.C:
			if _, err := fmt.Fprint(w, ": alive\n\n"); err != nil || control.Flush() != nil {
				return
			}
		}
	}
}

// explain answers with the path between two ends.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	from, to := r.URL.Query().Get("from"), r.URL.Query().Get("to")
	if from == "" || to == "" {
		refuse(w, http.StatusBadRequest, "want two ends, from and to, each [cluster/]namespace/pod or [cluster/]address")
		return
	}
	explanation, err := s.options.Explain(r.Context(), from, to)
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, "%v", err)
		return
	}
	data, err := json.Marshal(explanation)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "writing the explanation: %v", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // the browser has closed the connection
}

// Run serves on the listener until the context ends.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second,
		// Streams last as long as the page is open. They end with the context.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(listener) }()
	select {
	case err := <-stopped:
		return fmt.Errorf("serving the dashboard at %s: %w", s.options.Address, err)
	case <-ctx.Done():
		return server.Close()
	}
}
