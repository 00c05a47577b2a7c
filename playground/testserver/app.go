package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// part is the response of one service of an application: the identity of the responding pod, and the responses of the services that it needs.
type part struct {
	// Service is the host name under which the service was called. It is empty in the response of the first service.
	Service string `json:"service,omitempty"`
	identity
	// Address is the local address of the connection, HOST:PORT.
	Address string `json:"address,omitempty"`
	// Error is the reason why the service sent no valid response.
	Error string `json:"error,omitempty"`
	Needs []part `json:"needs,omitempty"`
}

// whole reports whether this service and all services below it in the tree responded.
func (p part) whole() bool {
	if p.Error != "" {
		return false
	}
	for _, need := range p.Needs {
		if !need.whole() {
			return false
		}
	}
	return true
}

func (p part) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Server address: %s\nServer name: %s\n", p.Address, p.Pod)
	p.tree(&b, "")
	return b.String()
}

func (p part) tree(b *strings.Builder, indent string) {
	for _, need := range p.Needs {
		fmt.Fprintf(b, "%s- %s: %s\n", indent, need.Service, strings.TrimSpace(strings.Join([]string{need.Pod, need.Cluster, need.Error}, " ")))
		need.tree(b, indent+"  ")
	}
}

// app serves one service of an application. For each request, it calls all services in -needs and responds with the whole tree of responses.
// The response is JSON if the client accepts that, otherwise text. Its status is 502 if any service failed. /healthz calls no other service.
func app(ctx context.Context, args []string, log io.Writer) error {
	flags := flag.NewFlagSet("app", flag.ContinueOnError)
	listen := flags.String("listen", ":8080", "address to serve on")
	needs := flags.String("needs", "", "services to ask, HOST:PORT, separated by commas")
	// A call that a slow machine delays, and of which a packet is sent again after a second, still ends in this time, also through a service that calls others.
	timeout := flags.Duration("timeout", 4*time.Second, "time for one of them to answer")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return errors.Join(errUsage, err)
	}
	self, err := whoAmI()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return fmt.Errorf("listening for HTTP: %w", err)
	}
	logger := slog.New(slog.NewTextHandler(log, nil))
	logger.Info("serving", "protocol", "http", "address", listener.Addr().String())
	// Use a new connection for each request, so that it reaches the pod that the name currently leads to.
	client := &http.Client{Timeout: *timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	server := &http.Server{Handler: self.app(client, list(*needs)), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return server.Shutdown(finish)
}

// whoAmI returns the identity of this server.
func whoAmI() (identity, error) {
	self := identity{Pod: os.Getenv("POD_NAME"), Node: os.Getenv("NODE_NAME"), Cluster: os.Getenv("CLUSTER_NAME")}
	if self.Pod != "" {
		return self, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return self, fmt.Errorf("finding the pod's name: %w", err)
	}
	self.Pod = host
	return self, nil
}

func (i identity) app(client *http.Client, needs []string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		said := part{identity: i, Needs: make([]part, len(needs))}
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			said.Address = local.String()
		}
		var all sync.WaitGroup
		for n, need := range needs {
			all.Go(func() { said.Needs[n] = ask(r.Context(), client, need) })
		}
		all.Wait()
		asJSON := strings.Contains(r.Header.Get("Accept"), "application/json")
		w.Header().Set("Content-Type", map[bool]string{true: "application/json", false: "text/plain; charset=utf-8"}[asJSON])
		if !said.whole() {
			w.WriteHeader(http.StatusBadGateway)
		}
		if asJSON {
			_ = json.NewEncoder(w).Encode(said)
			return
		}
		fmt.Fprint(w, said.text())
	})
	return mux
}

// ask calls a service and returns its response. If the call fails, the returned part contains the error.
func ask(ctx context.Context, client *http.Client, authority string) part {
	said := part{}
	err := func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+authority+"/", nil)
		if err != nil {
			return err
		}
		request.Header.Set("Accept", "application/json")
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
			return fmt.Errorf("reading the answer of %s, status %d: %w", authority, response.StatusCode, err)
		}
		return nil
	}()
	if err != nil {
		said = part{Error: err.Error()}
	}
	said.Service, _, _ = strings.Cut(authority, ":")
	return said
}
