package remote

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Identity is a kubeconfig whose credentials are replaced while requests run. A request uses the credentials of the moment at which it begins, so streams and
// watches that run already are not interrupted, whereas client-go's own reloading of certificates closes their connections.
type Identity struct {
	mu         sync.RWMutex
	cfg        *rest.Config
	transports []*Transport
}

// NewIdentity reads a kubeconfig; see Parse.
func NewIdentity(kubeconfig []byte) (*Identity, error) {
	cfg, err := Parse(kubeconfig)
	if err != nil {
		return nil, err
	}
	return IdentityOf(cfg), nil
}

// IdentityOf makes one of a configuration.
func IdentityOf(cfg *rest.Config) *Identity { return &Identity{cfg: cfg} }

// Transport is a round tripper that uses the present credentials of an Identity.
type Transport struct {
	build   func(*rest.Config) (http.RoundTripper, error)
	mu      sync.RWMutex
	present http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.WrappedRoundTripper().RoundTrip(req)
}

// WrappedRoundTripper is the transport of the present credentials.
func (t *Transport) WrappedRoundTripper() http.RoundTripper {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.present
}

// replace has requests that begin from now on use another transport. Idle connections of the one before end, those in use when they are done.
func (t *Transport) replace(next http.RoundTripper) {
	t.mu.Lock()
	before := t.present
	t.present = next
	t.mu.Unlock()
	if before != nil {
		utilnet.CloseIdleConnectionsFor(before)
	}
}

// Transport returns a round tripper that build makes of the configuration, once now and again for all credentials that follow.
func (i *Identity) Transport(build func(*rest.Config) (http.RoundTripper, error)) (*Transport, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	present, err := build(rest.CopyConfig(i.cfg))
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", i.cfg.Host, err)
	}
	t := &Transport{build: build, present: present}
	i.transports = append(i.transports, t)
	return t, nil
}

// Config returns a configuration for clients that follow the Identity. It holds no credentials itself.
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

// URL is the address of the API server.
func (i *Identity) URL() (*url.URL, error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	base, _, err := rest.DefaultServerUrlFor(i.cfg)
	if err != nil {
		return nil, fmt.Errorf("reading address %s: %w", i.cfg.Host, err)
	}
	return base, nil
}

// Replace takes another kubeconfig into use. It reports false, and changes nothing, for one that leads to another address: clients keep the address that they
// were made with.
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
			return false, fmt.Errorf("making a client for %s: %w", cfg.Host, err)
		}
	}
	for n, t := range i.transports {
		t.replace(next[n])
	}
	i.cfg = cfg
	return true, nil
}
