package remote

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Identity is a kubeconfig whose credentials can be replaced while requests are running. A request uses the credentials that are
// current at its start, so running streams and watches are not interrupted. In contrast, the certificate reload of client-go
// closes its connections.
type Identity struct {
	mu         sync.RWMutex
	cfg        *rest.Config
	transports []*Transport
}

// NewIdentity returns an Identity for a kubeconfig; see Parse.
func NewIdentity(kubeconfig []byte) (*Identity, error) {
	cfg, err := Parse(kubeconfig)
	if err != nil {
		return nil, err
	}
	return IdentityOf(cfg), nil
}

// IdentityOf returns an Identity for a client configuration.
func IdentityOf(cfg *rest.Config) *Identity { return &Identity{cfg: cfg} }

// Transport is a round tripper that uses the current credentials of an Identity.
type Transport struct {
	build   func(*rest.Config) (http.RoundTripper, error)
	mu      sync.RWMutex
	present http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.WrappedRoundTripper().RoundTrip(req)
}

// WrappedRoundTripper returns the transport with the current credentials.
func (t *Transport) WrappedRoundTripper() http.RoundTripper {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.present
}

// replace makes all later requests use another transport. It closes the idle connections of the previous transport; its other
// connections end with their requests.
func (t *Transport) replace(next http.RoundTripper) {
	t.mu.Lock()
	before := t.present
	t.present = next
	t.mu.Unlock()
	if before != nil {
		utilnet.CloseIdleConnectionsFor(before)
	}
}

// Transport returns a round tripper. It calls build with the current configuration now, and again after each replacement of the
// credentials.
func (i *Identity) Transport(build func(*rest.Config) (http.RoundTripper, error)) (*Transport, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	present, err := build(rest.CopyConfig(i.cfg))
	if err != nil {
		return nil, fmt.Errorf("creating a client for %s: %w", i.cfg.Host, err)
	}
	t := &Transport{build: build, present: present}
	i.transports = append(i.transports, t)
	return t, nil
}

// Config returns a configuration for clients that always use the current credentials. It contains no credentials itself.
func (i *Identity) Config() (*rest.Config, error) {
	transport, err := i.Transport(rest.TransportFor)
	if err != nil {
		return nil, err
	}
	base, err := i.URL()
	if err != nil {
		return nil, err
	}
	i.mu.RLock()
	defer i.mu.RUnlock()
	return &rest.Config{Host: base.String(), QPS: i.cfg.QPS, UserAgent: i.cfg.UserAgent, DisableCompression: i.cfg.DisableCompression, Transport: transport}, nil
}

// URL returns the address of the API server.
func (i *Identity) URL() (*url.URL, error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	base, _, err := rest.DefaultServerUrlFor(i.cfg)
	if err != nil {
		return nil, fmt.Errorf("reading address %s: %w", i.cfg.Host, err)
	}
	return base, nil
}

// Replace puts another kubeconfig into use. It returns false and changes nothing if the address of the API server differs,
// because existing clients keep their address.
func (i *Identity) Replace(kubeconfig []byte) (bool, error) {
	cfg, err := Parse(kubeconfig)
	if err != nil {
		return false, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if cfg.Host != i.cfg.Host {
		return false, nil
	}
	next := make([]http.RoundTripper, len(i.transports))
	for n, t := range i.transports {
		if next[n], err = t.build(rest.CopyConfig(cfg)); err != nil {
			return false, fmt.Errorf("creating a client for %s: %w", cfg.Host, err)
		}
	}
	for n, t := range i.transports {
		t.replace(next[n])
	}
	i.cfg = cfg
	return true, nil
}
