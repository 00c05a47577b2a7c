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

// identity identifies the server instance that responds.
type identity struct {
	// Pod is $POD_NAME, or the host name if that is not set. In a pod, the host name is normally the pod's name.
	Pod string `json:"pod"`
	// Node is $NODE_NAME, or empty if that is not set.
	Node string `json:"node,omitempty"`
	// Cluster is $CLUSTER_NAME, or empty if that is not set.
	Cluster string `json:"cluster,omitempty"`
}

// caller is the response of /whoami: the server's identity and both addresses of the connection.
type caller struct {
	identity
	// Remote is the client's address as the server sees it. Local is the server's address that the client reached. Both are HOST:PORT.
	Remote string `json:"remote"`
	Local  string `json:"local"`
}

// answer is the HTTP echo's description of a request.
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

// serve listens on all requested ports and serves until ctx ends. It returns an error if it cannot open a port.
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
		// UDP uses the port number of the TCP listener, even if the system chose that number.
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

// maxBytes is the size limit of a /bytes response.
const maxBytes = 1 << 30

// handler returns the HTTP handler of the echo server:
//   - /healthz responds with "ok".
//   - /bytes?n=N responds with N bytes.
//   - /whoami responds with the addresses of the connection and the identity of this server, as JSON.
//   - Everything else responds with a description of the request, as text followed by the request's body. If the client accepts only JSON,
//     the description is JSON and the body is omitted.
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
		// Ignore the error: the client may close the connection early.
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
		// Otherwise, an HTTP/1 server stops reading the request's body when it starts to respond.
		_ = http.NewResponseController(w).EnableFullDuplex()
		fmt.Fprint(w, said.text())
		if r.ContentLength != 0 {
			fmt.Fprintln(w)
			_, _ = io.Copy(w, r.Body)
		}
	})
	return mux
}

// asked returns the client's address, the local address of the connection and the identity of this server.
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

// echo responds to every datagram with one line that describes it, until the connection is closed.
func echo(conn net.PacketConn, self identity, logger *slog.Logger) error {
	buffer := make([]byte, 65536)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		logger.Info("datagram", "bytes", n, "remote", from.String())
		// Limit the message, so that the response fits into one datagram.
		line := fmt.Sprintf("pod: %s remote: %s bytes: %d message: %q\n", self.Pod, from, n, buffer[:min(n, 512)])
		if _, err := conn.WriteTo([]byte(line), from); err != nil {
			logger.Warn("answering a datagram failed", "remote", from.String(), "error", err)
		}
	}
}
