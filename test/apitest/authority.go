package apitest

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
}

// NewAuthority returns a new authority.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("creating the key of an authority: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("creating the certificate of an authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	return &Authority{key: key, certificate: certificate, Life: time.Hour, Now: time.Now}, err
}

// Certificate issues a client certificate for a user, valid between two times.
func (a *Authority) Certificate(key crypto.PublicKey, subject pkix.Name, from, until time.Time) ([]byte, error) {
	return a.issue(key, &x509.Certificate{Subject: subject, NotBefore: from, NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
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

// User returns a new key and a certificate for a user, both PEM-encoded.
func (a *Authority) User(name string, groups ...string) (certificate, key []byte, err error) {
	return a.pair(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// pair returns a new key, and a certificate with the subject and the purpose of a template, both PEM-encoded.
func (a *Authority) pair(template *x509.Certificate) (certificate, key []byte, err error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("creating a key for %s: %w", template.Subject.CommonName, err)
	}
	der, err := x509.MarshalECPrivateKey(signer)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the key of %s: %w", template.Subject.CommonName, err)
	}
	now := time.Now()
	template.NotBefore, template.NotAfter = now.Add(-time.Minute), now.Add(12*time.Hour)
	certificate, err = a.issue(signer.Public(), template)
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
}

// issue signs a certificate.
func (a *Authority) issue(key crypto.PublicKey, template *x509.Certificate) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return nil, fmt.Errorf("numbering a certificate: %w", err)
	}
	template.SerialNumber, template.KeyUsage = serial, x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key, a.key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate for %s: %w", template.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// pem returns the certificate of the authority.
func (a *Authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// serverFiles are the files with which an API server starts.
type serverFiles struct {
	// authority is the certificate of the authority of its clients; certificate and key are its own.
	authority, certificate, key string
	// accounts is the key that signs the tokens of ServiceAccounts.
	accounts string
}

// writeServerFiles writes the files of an API server on 127.0.0.1 to a folder.
func (a *Authority) writeServerFiles(dir string) (serverFiles, error) {
	certificate, key, err := a.pair(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return serverFiles{}, err
	}
	_, accounts, err := a.User("accounts")
	if err != nil {
		return serverFiles{}, err
	}
	files := serverFiles{
		authority: filepath.Join(dir, "clients.crt"), certificate: filepath.Join(dir, "apiserver.crt"), key: filepath.Join(dir, "apiserver.key"),
		accounts: filepath.Join(dir, "accounts.key"),
	}
	for file, content := range map[string][]byte{files.authority: a.pem(), files.certificate: certificate, files.key: key, files.accounts: accounts} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return serverFiles{}, err
		}
	}
	return files, nil
}
