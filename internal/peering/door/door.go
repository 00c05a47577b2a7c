// Package door is the authentication service of a provider, for consumers that share no kubeconfig with it, and what these knock with.
//
// It is no second protocol: behind it stands the handshake that can be done by objects alone. Who brings a token may have a nonce made and
// a Tenant applied, once it has proved that it holds its key, and gets what the Tenant is granted. Everything afterwards is done with that.
package door

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/peering"
)

// Options of a Door.
type Options struct {
	// ClusterID of this cluster, the provider.
	ClusterID string
	// Namespace of the installation.
	Namespace string
	// Address to listen on.
	Address string
	// Client writes, Reader reads from the API server itself.
	Client client.Client
	Reader client.Reader
	Log    logr.Logger
	// Now and Random are the clock and the source of randomness; time.Now and crypto/rand when nil.
	Now    func() time.Time
	Random io.Reader
	// Patience is how long a request waits for the controllers to do their part; 10 seconds when 0.
	Patience time.Duration
}

// Bounds of what a stranger can make the door do.
const (
	maxBody       = 32 << 10
	maxHeader     = 8 << 10
	maxAtOnce     = 16
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	endTimeout    = 2 * time.Second
)

// Door serves the handshake over HTTPS, in every replica.
type Door struct {
	Options
	certificate *certificate
	// knocks are requests of one source, and of all.
	knocks *limits
	// working bounds how many requests are answered at once.
	working chan struct{}
	// complaints keeps a flood out of the log.
	complaints rate.Sometimes
}

// New makes a door.
func New(opts Options) *Door {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	if opts.Patience == 0 {
		opts.Patience = 10 * time.Second
	}
	return &Door{
		Options: opts, certificate: &certificate{Options: &opts},
		knocks: newLimits(1, 20, 20, 100), working: make(chan struct{}, maxAtOnce),
		complaints: rate.Sometimes{First: 1, Interval: time.Second},
	}
}

// NeedLeaderElection tells the manager that every replica opens.
func (d *Door) NeedLeaderElection() bool { return false }

// Start serves until ctx ends.
func (d *Door) Start(ctx context.Context) error {
	if _, err := EnsureSecret(ctx, &d.Options); err != nil {
		return err
	}
	if _, err := d.certificate.get(ctx); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.Address)
	if err != nil {
		return fmt.Errorf("opening the authentication service: %w", err)
	}
	return d.Serve(ctx, listener)
}

// Serve is Start on a listener of the caller's.
func (d *Door) Serve(ctx context.Context, listener net.Listener) error {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true) // a handshake needs no streams, and less can be done to a server without
	server := &http.Server{
		Handler: d.Handler(), Protocols: protocols, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		ErrorLog: nil, BaseContext: func(net.Listener) context.Context { return ctx },
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return d.certificate.get(ctx) },
		},
	}
	server.ErrorLog = quiet()
	server.SetKeepAlivesEnabled(false) // a request a connection: what bounds the connections bounds the requests
	done := make(chan error, 1)
	go func() {
		done <- server.ServeTLS(&bounded{Listener: listener, limits: newLimits(10, 100, 100, 400), open: make(chan struct{}, maxOpen)}, "", "")
	}()
	select {
	case err := <-done:
		return fmt.Errorf("serving the authentication service: %w", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := server.Shutdown(end); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("closing the authentication service: %w", err)
	}
	return nil
}

// Handler answers requests.
func (d *Door) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+peering.DoorNoncePath, d.bounded(d.nonce))
	mux.HandleFunc("POST "+peering.DoorTenantPath, d.bounded(d.tenant))
	return mux
}
