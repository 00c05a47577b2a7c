package invite

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
)

// PinOf returns the Token.Pin for a certificate: the SHA-256 of its public key (SubjectPublicKeyInfo).
func PinOf(certificate *x509.Certificate) []byte {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return sum[:]
}

// ErrPin means that the server at the provider's address did not present the pinned key.
var ErrPin = errors.New("the certificate of the service is not the one that the token names: either a third party intercepts the connection, or the provider has replaced the certificate; " +
	"nothing was sent. Ask the provider's administrator for another command (liqoctl generate peer-command)")

// CheckPin returns nil if the first of the presented certificates has the pinned key, and ErrPin otherwise.
func CheckPin(pin []byte, shown []*x509.Certificate) error {
	if len(shown) == 0 || subtle.ConstantTimeCompare(pin, PinOf(shown[0])) != 1 {
		return ErrPin
	}
	return nil
}
