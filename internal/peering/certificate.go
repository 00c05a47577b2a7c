package peering

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Certificate parses the first PEM certificate in data. It ignores what follows, because signers may append their chain.
func Certificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != pemCertificate {
		return nil, errors.New("reading the certificate: it is not a PEM certificate")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	return certificate, nil
}

// CertificateLife is the lifetime requested for the certificates of consumers; the cluster's signer may shorten it. It is short, because a
// certificate of a Kubernetes cluster can't be revoked before it expires. It is long enough for a consumer that is switched off over a
// weekend.
const CertificateLife = 7 * 24 * time.Hour

// RenewAt returns when a certificate should be replaced: after two thirds of its lifetime.
func RenewAt(certificate *x509.Certificate) time.Time {
	life := certificate.NotAfter.Sub(certificate.NotBefore)
	return certificate.NotBefore.Add(life / 3 * 2)
}

// CheckCertificate returns nil if data is a certificate of subject for the key in request, and needs no renewal yet at the given time.
// Otherwise the error says why the certificate can't be used.
func CheckCertificate(data []byte, request []byte, subject Subject, now time.Time) error {
	if err := CheckIssued(data, request, subject); err != nil {
		return err
	}
	certificate, err := Certificate(data)
	if err != nil {
		return err
	}
	if !now.Before(RenewAt(certificate)) {
		return fmt.Errorf("the certificate should have been renewed at %s", RenewAt(certificate).UTC().Format(time.RFC3339))
	}
	return nil
}

// CheckIssued returns nil if data is a certificate of subject for the key in request, expired or not. Otherwise the error says what
// differs.
func CheckIssued(data []byte, request []byte, subject Subject) error {
	certificate, err := Certificate(data)
	if err != nil {
		return err
	}
	csr, err := ParseRequest(request)
	if err != nil {
		return err
	}
	switch {
	case !sameKey(certificate.PublicKey, csr.PublicKey):
		return errors.New("the certificate is for another key than the request's")
	case certificate.Subject.CommonName != subject.User || !slices.Equal(certificate.Subject.Organization, []string{subject.Group}):
		return fmt.Errorf("the certificate is for CN %q and O %q, want %q and %q",
			certificate.Subject.CommonName, certificate.Subject.Organization, subject.User, subject.Group)
	}
	return nil
}

// CheckHolder returns nil if the PEM certificate in data was issued for key, and an error otherwise.
func CheckHolder(data []byte, key crypto.Signer) error {
	certificate, err := Certificate(data)
	if err != nil {
		return err
	}
	if !sameKey(certificate.PublicKey, key.Public()) {
		return errors.New("the certificate was issued for another key than this cluster's")
	}
	return nil
}

// Fresher reports whether the PEM certificate a is to be preferred to b: a can be parsed, and b either can't be parsed or expires earlier.
func Fresher(a, b []byte) bool {
	first, err := Certificate(a)
	if err != nil {
		return false
	}
	second, err := Certificate(b)
	return err != nil || first.NotAfter.After(second.NotAfter)
}
