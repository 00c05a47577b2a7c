package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// check refuses a host that is not the API server. Each peer uses the address in its kubeconfig, and the proxy cannot know all
// those addresses. But they are all in the certificate of the API server, because peers verify the certificate against them. The
// proxy only reads the certificate. The peer, which knows the certificate authority, verifies it.
func (p *Proxy) check(ctx context.Context, host, target string) *refusal {
	ctx, cancel := context.WithTimeout(ctx, p.opts.DialTimeout)
	defer cancel()
	certificate, err := p.certificate(ctx, host)
	if err != nil {
		return refuse(http.StatusBadGateway, "the API server of the proxy's cluster, %s over TCP, does not answer the proxy: %v", p.opts.Target, err)
	}
	if certificate.VerifyHostname(host) != nil {
		return refuse(http.StatusForbidden, "CONNECT %s: this proxy connects to the API server of its cluster only, and %s is not one of its names (%s)", target, host, names(certificate))
	}
	return nil
}

// certificate returns the certificate that the API server presents to clients that address it as host.
func (p *Proxy) certificate(ctx context.Context, host string) (*x509.Certificate, error) {
	conn, err := p.dialer.DialContext(ctx, "tcp", p.opts.Target)
	if err != nil {
		return nil, err
	}
	defer shut(conn)
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	config := &tls.Config{InsecureSkipVerify: true} // no data is sent: see check
	if net.ParseIP(host) == nil {
		config.ServerName = host
	}
	client := tls.Client(conn, config)
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return client.ConnectionState().PeerCertificates[0], nil
}

// maxNames is the maximum number of names in a refusal.
const maxNames = 8

// names lists the first few names of a certificate.
func names(certificate *x509.Certificate) string {
	all := append([]string(nil), certificate.DNSNames...)
	for _, address := range certificate.IPAddresses {
		all = append(all, address.String())
	}
	if len(all) > maxNames {
		all = append(all[:maxNames], fmt.Sprintf("and %d more", len(all)-maxNames))
	}
	return strings.Join(all, ", ")
}
