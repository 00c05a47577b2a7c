// Package enrollment implements the authentication service of a provider, and the client with which consumers call it. It is for
// consumers that share no kubeconfig with the provider.
//
// The service is no separate protocol: it drives the same handshake that can be done by applying objects. For a client with a valid token,
// it has the provider generate a nonce. Once the client has proved that it holds its key, the service applies a Tenant for it and returns
// what the Tenant is granted. From then on, the consumer uses that identity.
package enrollment

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

// Options configures a Service.
type Options struct {
	// ClusterID is the ID of this cluster, the provider.
	ClusterID string
	// Namespace is the namespace of the installation.
	Namespace string
	// Address is the TCP address to listen on.
	Address string
	// Plain serves HTTP without TLS, for a proxy that ends TLS. Consumers always use TLS.
	Plain bool
	// Client writes. Reader reads from the API server directly, without a cache.
	Client client.Client
	Reader client.Reader
	Log    logr.Logger
	// Now is the clock and Random the source of randomness; time.Now and crypto/rand when nil.
	Now    func() time.Time
	Random io.Reader
	// Patience is how long a request waits for the controllers to do their part; 10 seconds when 0.
	Patience time.Duration
}

// Limits on what a client can make the service do before it is authenticated: bytes of a request's body and header, requests at the same
// time, timeouts.
const (
	maxBody       = 32 << 10
	maxHeader     = 8 << 10
	maxAtOnce     = 16
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	endTimeout    = 2 * time.Second
)

// Service is the authentication service: it serves the handshake over HTTPS, or HTTP behind a proxy, in every replica.
type Service struct {
	Options
	certificate *certificate
	key         tokenKey
	// requestLimits limit the rate of requests, for each source and for all sources together.
	requestLimits *limits
	// working limits the number of requests that are served at the same time. It has an element for each of them.
	working chan struct{}
	// complaints limits the rate of log lines about failed requests.
	complaints rate.Sometimes
}

// New returns a Service that is not started yet.
func New(opts Options) *Service {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	if opts.Patience == 0 {
		opts.Patience = 10 * time.Second
	}
	return &Service{
		Options: opts, certificate: &certificate{Options: &opts},
		requestLimits: newLimits(1, 20, 20, 100), working: make(chan struct{}, maxAtOnce),
		complaints: rate.Sometimes{First: 1, Interval: time.Second},
	}
}

// NeedLeaderElection returns false, so that the manager starts the service in every replica.
func (d *Service) NeedLeaderElection() bool { return false }

// Start creates the Secrets of the service if they are missing, listens on Address, and serves until ctx ends.
func (d *Service) Start(ctx context.Context) error {
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

// Serve serves on the listener until ctx ends. Unlike Start, it creates missing Secrets only when a request needs them.
func (d *Service) Serve(ctx context.Context, listener net.Listener) error {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true) // HTTP/2 has a larger attack surface, and a handshake needs no streams
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
	server.SetKeepAlivesEnabled(false) // one request per connection, so that the limits on connections limit the requests, too
	// The rate of all sources bounds the TLS handshakes. It is far above that of one source: at this point no client has sent a token, and many
	// clients without a token must not lock out a client that has one.
	limited := newBounded(listener, newLimits(10, 100, 1000, 2000), maxOpenOfSource, maxOpen)
	if d.Plain { // all connections come from the proxy
		limited = newBounded(listener, newLimits(100, 400, 100, 400), maxOpen, maxOpen)
	}
	done := make(chan error, 1)
	go func() {
		if d.Plain {
			done <- server.Serve(limited)
			return
		}
		done <- server.ServeTLS(limited, "", "")
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

// Handler returns the handler of the service's requests.
func (d *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+peering.EnrollmentNoncePath, d.bounded(d.nonce))
	mux.HandleFunc("POST "+peering.EnrollmentTenantPath, d.bounded(d.tenant))
	return mux
}
