// Package pki creates and reads X.509 certificates in PEM: those of our servers, and those of clusters and their requests.
package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"time"
)

// Types of PEM blocks.
const (
	TypeCertificate = "CERTIFICATE"
	TypeRequest     = "CERTIFICATE REQUEST"
	TypePrivateKey  = "PRIVATE KEY"
	TypePublicKey   = "PUBLIC KEY"
)

// Skew is the assumed maximum clock difference between two machines. A certificate is valid that long before it was made.
const Skew = 5 * time.Minute

// First parses the first PEM certificate in data. It ignores what follows, because signers may append their chain.
func First(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != TypeCertificate {
		return nil, errors.New("reading the certificate: it is not a PEM certificate")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	return certificate, nil
}

// Unexpired returns the PEM certificates of a bundle that have not expired.
func Unexpired(bundle []byte, now time.Time) []byte {
	var kept bytes.Buffer
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(c.NotAfter) {
			kept.Write(encode(TypeCertificate, block.Bytes))
		}
	}
	return kept.Bytes()
}

// RenewAt returns when a credential that is valid between two times should be replaced: after two thirds of its lifetime.
func RenewAt(from, until time.Time) time.Time { return from.Add(until.Sub(from) / 3 * 2) }

// Request returns a PEM certificate request that is signed by key.
func Request(random io.Reader, key crypto.Signer, template *x509.CertificateRequest) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(random, template, key)
	if err != nil {
		return nil, fmt.Errorf("creating a certificate request for %s: %w", template.Subject.CommonName, err)
	}
	return encode(TypeRequest, der), nil
}

// PrivateKey returns the key as PKCS #8 in PEM.
func PrivateKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the private key: %w", err)
	}
	return encode(TypePrivateKey, der), nil
}

// PublicKey returns the key as PKIX in PEM.
func PublicKey(key crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the public key: %w", err)
	}
	return encode(TypePublicKey, der), nil
}

// NewKey generates a key for a server.
func NewKey(random io.Reader) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return nil, fmt.Errorf("creating a key: %w", err)
	}
	return key, nil
}

// Pair is a certificate and its private key, both in PEM.
type Pair struct {
	Certificate, Key []byte

	template *x509.Certificate
	signer   crypto.Signer
}

// NewCA returns a new CA with this name. It can sign in this process only: the fields that signing needs are not encoded, so a Pair that was read
// from a file signs nothing.
func NewCA(random io.Reader, name string, now time.Time, lifetime time.Duration) (*Pair, error) {
	return issue(random, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}, now, lifetime, nil)
}

// NewServer returns a new certificate of a server, signed by ca, or by itself if ca is nil. The template has the subject and the addresses.
func NewServer(random io.Reader, template *x509.Certificate, now time.Time, lifetime time.Duration, ca *Pair) (*Pair, error) {
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.BasicConstraintsValid = true
	return issue(random, template, now, lifetime, ca)
}

func issue(random io.Reader, template *x509.Certificate, now time.Time, lifetime time.Duration, ca *Pair) (*Pair, error) {
	key, err := NewKey(random)
	if err != nil {
		return nil, err
	}
	if template.SerialNumber, err = serialNumber(random); err != nil {
		return nil, err
	}
	template.NotBefore, template.NotAfter = now.Add(-Skew), now.Add(lifetime)
	if ca == nil {
		ca = &Pair{template: template, signer: key}
	}
	der, err := x509.CreateCertificate(random, template, ca.template, key.Public(), ca.signer)
	if err != nil {
		return nil, fmt.Errorf("creating a certificate for %s: %w", template.Subject.CommonName, err)
	}
	private, err := PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &Pair{Certificate: encode(TypeCertificate, der), Key: private, template: template, signer: key}, nil
}

// serialNumber returns a serial number with 127 random bits; RFC 5280 allows up to 20 octets.
func serialNumber(random io.Reader) (*big.Int, error) {
	raw := make([]byte, 16)
	if _, err := io.ReadFull(random, raw); err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	raw[0] &= 0x7f
	return new(big.Int).SetBytes(raw), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
