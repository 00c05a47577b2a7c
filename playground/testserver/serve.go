package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// identity says which copy of the server answers.
type identity struct {
	// Pod is $POD_NAME, or else the host name, which in a pod is the pod's name.
	Pod string `json:"pod"`
	// Node is $NODE_NAME, empty if that is not set.
	Node string `json:"node,omitempty"`
	// Cluster is $CLUSTER_NAME, empty if that is not set.
	Cluster string `json:"cluster,omitempty"`
}

// caller is what /whoami says: who asked whom.
type caller struct {
	identity
	// Remote is the client as the server sees it, Local the address the client reached, both HOST:PORT.
	Remote string `json:"remote"`
	Local  string `json:"local"`
}

// answer is what the HTTP echo says about a request.
type answer struct {
	caller
	Method string              `json:"method"`
	Host   string              `json:"host"`
	URL    string              `json:"url"`
	Header map[string][]string `json:"header,omitempty"`
}

func (a answer) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pod: %s\n", a.Pod)
	if a.Node != "" {
		fmt.Fprintf(&b, "node: %s\n", a.Node)
	}
	if a.Cluster != "" {
		fmt.Fprintf(&b, "cluster: %s\n", a.Cluster)
	}
	fmt.Fprintf(&b, "remote: %s\nlocal: %s\nrequest: %s %s\nhost: %s\n", a.Remote, a.Local, a.Method, a.URL, a.Host)
	names := make([]string, 0, len(a.Header))
	for name := range a.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range a.Header[name] {
			fmt.Fprintf(&b, "header: %s: %s\n", name, value)
		}
	}
	return b.String()
}

// serve listens on all wanted ports and echoes until ctx ends. A port that cannot be opened is an error.
func serve(ctx context.Context, args []string, log io.Writer) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	web := flags.String("http", ":8080", "HTTP addresses, separated by commas; empty for none")
	datagrams := flags.String("udp", ":5353", "UDP addresses, separated by commas; empty for none")
	streams := flags.String("stream", ":9000", "addresses for streams and round trips, TCP and UDP, separated by commas; empty for none")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return errors.Join(errUsage, err)
	}
	self, err := whoAmI()
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(log, nil))
	server := &http.Server{Handler: handler(self, logger), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	report := func(err error) {
		select {
		case failed <- err:
		default:
		}
	}
	var packets []net.PacketConn
	defer func() {
		for _, conn := range packets {
			_ = conn.Close()
		}
	}()
	defer func() { _ = server.Close() }()
	for _, address := range list(*web) {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("listening for HTTP: %w", err)
		}
		logger.Info("serving", "protocol", "http", "address", listener.Addr().String())
		go func() { report(server.Serve(listener)) }()
	}
	for _, address := range list(*streams) {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("listening for streams: %w", err)
		}
		defer func() { _ = listener.Close() }()
		// The same number for both protocols, also where the system has chosen it.
		conn, err := net.ListenPacket("udp", listener.Addr().String())
		if err != nil {
			return fmt.Errorf("listening for round trips: %w", err)
		}
		packets = append(packets, conn)
		logger.Info("serving", "protocol", "stream", "address", listener.Addr().String())
		go func() { report(stream(ctx, listener)) }()
		go func() { report(bounce(conn)) }()
	}
	for _, address := range list(*datagrams) {
		conn, err := net.ListenPacket("udp", address)
		if err != nil {
			return fmt.Errorf("listening for datagrams: %w", err)
		}
		packets = append(packets, conn)
		logger.Info("serving", "protocol", "udp", "address", conn.LocalAddr().String())
		go func() { report(echo(conn, self, logger)) }()
	}
	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return server.Shutdown(finish)
}

func list(addresses string) []string {
	return strings.FieldsFunc(addresses, func(r rune) bool { return r == ',' })
}

// maxBytes bounds the answer of /bytes.
const maxBytes = 1 << 30

// handler answers /healthz with "ok", /bytes?n=N with N bytes, /whoami with the caller's address and this server as JSON, and everything else with the request itself, as JSON if the
// client accepts only that, followed by the request's body.
func handler(self identity, logger *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("/bytes", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseInt(cmp.Or(r.URL.Query().Get("n"), "1024"), 10, 64)
		if err != nil || n < 0 || n > maxBytes {
			http.Error(w, "n must be a number of bytes up to 1 GiB", http.StatusBadRequest)
			return
		}
		logger.Info("request", "method", r.Method, "url", r.URL.String(), "remote", r.RemoteAddr)
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
		// A client that leaves early is its own affair.
		_, _ = io.CopyN(w, zeros{}, n)
	})
	mux.HandleFunc("/whoami", func(w http.ResponseWriter, r *http.Request) {
		logger.Info("request", "method", r.Method, "url", r.URL.String(), "remote", r.RemoteAddr)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(self.asked(r))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		logger.Info("request", "method", r.Method, "url", r.URL.String(), "remote", r.RemoteAddr)
		said := answer{caller: self.asked(r), Method: r.Method, Host: r.Host, URL: r.URL.String(), Header: r.Header}
		if r.Header.Get("Accept") == "application/json" {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(said)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		// HTTP/1 answers would otherwise cut the request's body off once they begin.
		_ = http.NewResponseController(w).EnableFullDuplex()
		fmt.Fprint(w, said.text())
		if r.ContentLength != 0 {
			fmt.Fprintln(w)
			_, _ = io.Copy(w, r.Body)
		}
	})
	return mux
}

// asked tells who sent the request to which address of ours.
func (i identity) asked(r *http.Request) caller {
	said := caller{identity: i, Remote: r.RemoteAddr}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		said.Local = local.String()
	}
	return said
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// echo answers every datagram with one line about it until the connection is closed.
func echo(conn net.PacketConn, self identity, logger *slog.Logger) error {
	buffer := make([]byte, 65536)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		logger.Info("datagram", "bytes", n, "remote", from.String())
		// The answer is short whatever came in, so that it fits in one datagram.
		line := fmt.Sprintf("pod: %s remote: %s bytes: %d message: %q\n", self.Pod, from, n, buffer[:min(n, 512)])
		if _, err := conn.WriteTo([]byte(line), from); err != nil {
			logger.Warn("answering a datagram failed", "remote", from.String(), "error", err)
		}
	}
}
