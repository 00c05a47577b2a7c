package node

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"liqo.io/playground/component"
)

// ready reports whether the program may start: its sockets accept connections and the API server returns the resource in Get.
func (p *program) ready() bool {
	for _, socket := range p.Sockets {
		conn, err := net.DialTimeout("unix", socket, time.Second)
		if err != nil {
			return false
		}
		_ = conn.Close()
	}
	if p.Get == nil {
		return true
	}
	if p.probe == nil {
		made, err := newProbe(*p.Get)
		if err != nil {
			return false
		}
		p.probe = made
	}
	return p.probe.ok()
}

// probe checks one URL repeatedly with the same client.
type probe struct {
	client *http.Client
	url    string
}

func newProbe(get component.Get) (*probe, error) {
	ca, err := os.ReadFile(get.Authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("reading %s: no certificate in it", get.Authority)
	}
	pair, err := tls.LoadX509KeyPair(get.Certificate, get.Key)
	if err != nil {
		return nil, err
	}
	return &probe{url: get.URL, client: &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}, DisableKeepAlives: true},
	}}, nil
}

func (p *probe) ok() bool {
	response, err := p.client.Get(p.url)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK
}
