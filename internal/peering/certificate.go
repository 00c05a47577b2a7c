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

// Certificate reads the first PEM certificate: signers may append their chain.
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

// CertificateLife is for how long the certificates of consumers are requested; the cluster's signer may shorten it. Nobody can revoke a certificate of a
// Kubernetes cluster before it expires, so it is short; and long enough for a consumer that is switched off over a weekend.
const CertificateLife = 7 * 24 * time.Hour

// RenewAt is when a certificate should be replaced: after two thirds of its life.
func RenewAt(certificate *x509.Certificate) time.Time {
	life := certificate.NotAfter.Sub(certificate.NotBefore)
	return certificate.NotBefore.Add(life / 3 * 2)
}

// CheckCertificate tells why data can't serve as the certificate of subject with the request's key at the given time; nil means it can,
// and needs no renewal yet.
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

// CheckIssued tells why data is not a certificate of subject with the request's key, at whatever time; nil means it is.
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

// CheckHolder tells whether a PEM certificate was issued for key.
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

// Fresher tells whether the PEM certificate a is to be preferred to b: it can be read, and b can't or ends earlier.
func Fresher(a, b []byte) bool {
	first, err := Certificate(a)
	if err != nil {
		return false
	}
	second, err := Certificate(b)
	return err != nil || first.NotAfter.After(second.NotAfter)
}
