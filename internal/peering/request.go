package peering

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"slices"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/pki"
)

// OrganizationControlPlane is the group of all control-plane identities.
const OrganizationControlPlane = "liqo.io"

// Subject is the user and the group of a certificate: its only CN and its only O.
type Subject struct {
	// User is the common name.
	User string
	// Group is the organization.
	Group string
}

// ControlPlaneSubject returns the subject of the consumer's controller manager in its providers.
func ControlPlaneSubject(consumer string) Subject {
	return Subject{User: consumer, Group: OrganizationControlPlane}
}

// ResourceSliceSubject returns the subject of the virtual kubelet of a ResourceSlice. The user contains a hash of the consumer's ID, so that
// ResourceSlices of the same name of two consumers get different users. A malicious cluster could choose this user as its cluster ID, and so get the
// same name for its control-plane user. Even then the groups differ.
func ResourceSliceSubject(slice, consumer string) Subject {
	return Subject{User: slice + authv1beta1.SliceUserSuffix(consumer), Group: consumer}
}

// NewRequest returns a PEM certificate request for the subject, signed by key.
func NewRequest(random io.Reader, key crypto.Signer, subject Subject) ([]byte, error) {
	return pki.Request(random, key, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: subject.User, Organization: []string{subject.Group}},
	})
}

// CheckRequest returns nil if a PEM certificate request asks for subject and nothing else, is signed by its own key, and that key is
// publicKey (PEM). An empty publicKey allows any key: it is for consumers that the administrator vouches for.
func CheckRequest(request []byte, subject Subject, publicKey []byte) error {
	csr, err := ParseRequest(request)
	if err != nil {
		return err
	}
	if err := acceptKey(csr.PublicKey); err != nil {
		return fmt.Errorf("the certificate request has %w", err)
	}
	if csr.Subject.CommonName != subject.User {
		return fmt.Errorf("the certificate request is for CN %q, want %q", csr.Subject.CommonName, subject.User)
	}
	if !slices.Equal(csr.Subject.Organization, []string{subject.Group}) {
		return fmt.Errorf("the certificate request is for O %q, want only %q", csr.Subject.Organization, subject.Group)
	}
	// Names also contains what Subject omits: a second CN, and attributes that other software may take for a group.
	if len(csr.Subject.Names) != 2 {
		return fmt.Errorf("the certificate request's subject has %d attributes, want only CN and O", len(csr.Subject.Names))
	}
	if len(csr.DNSNames)+len(csr.EmailAddresses)+len(csr.IPAddresses)+len(csr.URIs) > 0 || len(csr.Extensions) > 0 {
		return errors.New("the certificate request has alternative names or extensions, want none")
	}
	if len(publicKey) == 0 {
		return nil
	}
	key, err := ParsePublicKey(publicKey)
	if err != nil {
		return err
	}
	if !sameKey(csr.PublicKey, key) {
		return errors.New("the certificate request has another key than the given public key")
	}
	return nil
}

// ParseRequest parses exactly one PEM certificate request and checks that it is signed by its own key.
func ParseRequest(request []byte) (*x509.CertificateRequest, error) {
	der, err := onlyBlock(request, pki.TypeRequest)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate request: %w", err)
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate request: %w", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("checking the certificate request's own signature: %w", err)
	}
	return csr, nil
}
