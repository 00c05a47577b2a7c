package peering

import (
	"crypto"
	"errors"
	"fmt"
	"slices"
	"time"

	"liqo.io/liqo/internal/pki"
)

// CertificateLife is the lifetime requested for the certificates of consumers; the cluster's signer may shorten it. It is short, because a
// certificate of a Kubernetes cluster can't be revoked before it expires. It is long enough for a consumer that is switched off over a
// weekend.
const CertificateLife = 7 * 24 * time.Hour

// CheckCertificate returns nil if data is a certificate of subject for the key in request, and needs no renewal yet at the given time.
// Otherwise the error says why the certificate can't be used.
func CheckCertificate(data []byte, request []byte, subject Subject, now time.Time) error {
	if err := CheckIssued(data, request, subject); err != nil {
		return err
	}
	certificate, err := pki.First(data)
	if err != nil {
		return err
	}
	if at := credentialOf(certificate).RenewAt(); !now.Before(at) {
		return fmt.Errorf("the certificate should have been renewed at %s", at.UTC().Format(time.RFC3339))
	}
	return nil
}

// CheckIssued returns nil if data is a certificate of subject for the key in request, expired or not. Otherwise the error says what
// differs.
func CheckIssued(data []byte, request []byte, subject Subject) error {
	certificate, err := pki.First(data)
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
	certificate, err := pki.First(data)
	if err != nil {
		return err
	}
	if !sameKey(certificate.PublicKey, key.Public()) {
		return errors.New("the certificate was issued for another key than this cluster's")
	}
	return nil
}
