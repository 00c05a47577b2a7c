package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"time"

	"liqo.io/liqo/internal/pki"
)

const (
	// lifetime is the validity of the CA and of the serving certificate. Liqo always generates both together, so it never stores the key of the CA.
	lifetime = 365 * 24 * time.Hour
	// renewBefore is how long before their expiry Liqo renews both. A third of the lifetime leaves enough time to notice failures.
	renewBefore = lifetime / 3
)

// Keys of the Secret.
const (
	keyCA          = "ca"
	keyCertificate = "tls.crt"
	keyPrivate     = "tls.key"
)

// certBundle is the content of the Secret, all in PEM.
type certBundle struct {
	// ca is the CA bundle that clients trust. The CA that signed certificate comes first. Earlier CAs that have not expired follow, since other
	// replicas may still serve certificates that they signed.
	ca []byte
	// certificate and key are the serving certificate and its private key.
	certificate, key []byte
}

func certBundleOf(data map[string][]byte) certBundle {
	return certBundle{ca: data[keyCA], certificate: data[keyCertificate], key: data[keyPrivate]}
}

func (m certBundle) data() map[string][]byte {
	return map[string][]byte{keyCA: m.ca, keyCertificate: m.certificate, keyPrivate: m.key}
}

// parse validates the bundle at the time now. It returns the certificate for use by TLS, and the time at which the bundle must be renewed. It returns an
// error if the certificate is not for that host, not signed by the CA, or not valid at that time.
func (m certBundle) parse(host string, now time.Time) (*tls.Certificate, time.Time, error) {
	pair, err := tls.X509KeyPair(m.certificate, m.key)
	if err != nil {
		return nil, time.Time{}, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(m.ca) {
		return nil, time.Time{}, errors.New("it contains no CA")
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{
		DNSName: host, Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}); err != nil {
		return nil, time.Time{}, err
	}
	return &pair, pair.Leaf.NotAfter.Add(-renewBefore), nil
}

// generate creates a CA, and a certificate for the host that is signed by this CA. The parameter before holds the former CAs in PEM. The new bundle still
// trusts those that have not expired.
func generate(host string, before []byte, now time.Time, random io.Reader) (certBundle, error) {
	ca, err := pki.NewCA(random, "liqo-webhook-ca", now, lifetime)
	if err != nil {
		return certBundle{}, fmt.Errorf("creating the webhook CA: %w", err)
	}
	server, err := pki.NewServer(random, &x509.Certificate{Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}}, now, lifetime, ca)
	if err != nil {
		return certBundle{}, fmt.Errorf("creating the webhook certificate: %w", err)
	}
	return certBundle{ca: append(ca.Certificate, pki.Unexpired(before, now)...), certificate: server.Certificate, key: server.Key}, nil
}
