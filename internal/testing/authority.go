package testing

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Authority is the certificate authority that an API server trusts for client certificates. With its certificates, a test acts as
// a real user.
type Authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	// Life is the validity of the certificates that Sign issues, counted from Now. The defaults are one hour and time.Now.
	// Certificates become valid one minute before the current time, to allow for clock differences.
	Life time.Duration
	Now  func() time.Time
	file string
}

// NewAuthority returns a new authority. Set it as ControlPlane.GetAPIServer().Authn of an environment before that environment
// starts.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of an authority: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the certificate of an authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	return &Authority{key: key, certificate: certificate, Life: time.Hour, Now: time.Now}, err
}

// Certificate issues a client certificate for a user, valid between two times.
func (a *Authority) Certificate(key crypto.PublicKey, subject pkix.Name, from, until time.Time) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return nil, fmt.Errorf("numbering a certificate: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: subject, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.certificate, key, a.key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate for %s: %w", subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// Sign issues certificates for approved CertificateSigningRequests until ctx ends, as the controller manager of Kubernetes does.
func (a *Authority) Sign(ctx context.Context, c client.Client) {
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		list := &certificatesv1.CertificateSigningRequestList{}
		if err := c.List(ctx, list); err != nil {
			continue
		}
		for i := range list.Items {
			csr := &list.Items[i]
			if len(csr.Status.Certificate) > 0 || !slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
				return c.Type == certificatesv1.CertificateApproved
			}) {
				continue
			}
			block, _ := pem.Decode(csr.Spec.Request)
			request, err := x509.ParseCertificateRequest(block.Bytes)
			if err != nil {
				continue
			}
			// The API server uses the real clock.
			csr.Status.Certificate, err = a.Certificate(request.PublicKey, request.Subject, time.Now().Add(-time.Minute), a.Now().Add(a.Life))
			if err == nil {
				_ = c.Status().Update(ctx, csr) // after a conflict, the next tick tries again
			}
		}
	}
}

// Configure implements the Authn interface of envtest: it sets the flag for the client CA file.
func (a *Authority) Configure(workDir string, args *envtest.Arguments) error {
	a.file = filepath.Join(workDir, "clients.crt")
	args.Set("client-ca-file", a.file)
	return nil
}

// Start implements the Authn interface of envtest: it writes the client CA file.
func (a *Authority) Start() error {
	if a.file == "" {
		return errors.New("starting an authority: it was not configured")
	}
	return os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}), 0o600)
}

// AddUser implements the Authn interface of envtest: it returns a configuration with a new key and certificate for the user.
func (a *Authority) AddUser(user envtest.User, base *rest.Config) (*rest.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of user %s: %w", user.Name, err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key of user %s: %w", user.Name, err)
	}
	cfg := rest.CopyConfig(base)
	cfg.KeyData = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	now := time.Now()
	cfg.CertData, err = a.Certificate(key.Public(), pkix.Name{CommonName: user.Name, Organization: user.Groups}, now.Add(-time.Minute), now.Add(12*time.Hour))
	return cfg, err
}

// Stop implements the Authn interface of envtest.
func (a *Authority) Stop() error { return nil }
