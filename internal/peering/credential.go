package peering

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"golang.org/x/crypto/ssh"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/pki"
)

// Kinds of Credential, as messages name them.
const (
	KindCertificate = "certificate"
	KindToken       = "token"
	KindAccessKey   = "access key"
)

// Credential is the credential of an Identity and its validity period. The expiry of an AWS access key is unknown to this cluster: both times are
// zero, and Liqo does not renew it.
type Credential struct {
	Kind        string
	From, Until time.Time
}

// KindOf returns the kind of the credential in AuthParams, even if the credential can't be read. Without a credential it returns KindCertificate.
func KindOf(params *authv1beta1.AuthParams) string {
	switch {
	case params.Token != nil:
		return KindToken
	case params.AwsConfig != nil:
		return KindAccessKey
	}
	return KindCertificate
}

// CredentialOf returns the credential in AuthParams. The error says why there is none, with the field.
func CredentialOf(params *authv1beta1.AuthParams) (Credential, error) {
	if params == nil {
		return Credential{}, errors.New("there are no authParams")
	}
	if t := params.Token; t != nil {
		if len(t.Sealed) == 0 || !t.IssuedAt.Before(&t.ExpiresAt) {
			return Credential{}, errors.New("authParams.token: it is empty, or expires before it was issued")
		}
		return Credential{Kind: KindToken, From: t.IssuedAt.Time, Until: t.ExpiresAt.Time}, nil
	}
	if params.AwsConfig != nil {
		if err := checkAws(params.AwsConfig); err != nil {
			return Credential{}, err
		}
		return Credential{Kind: KindAccessKey}, nil
	}
	certificate, err := pki.First(params.SignedCRT)
	if err != nil {
		return Credential{}, InField("authParams.signedCRT", err)
	}
	return credentialOf(certificate), nil
}

func credentialOf(certificate *x509.Certificate) Credential {
	return Credential{Kind: KindCertificate, From: certificate.NotBefore, Until: certificate.NotAfter}
}

// Expires reports whether the credential expires. If it does not, RenewAt and LateAt have no meaning, and it is never Late.
func (c Credential) Expires() bool { return !c.Until.IsZero() }

// RenewAt returns when the credential should be replaced: after two thirds of its lifetime.
func (c Credential) RenewAt() time.Time { return pki.RenewAt(c.From, c.Until) }

// LateAt returns when a renewal is overdue: when a quarter of the lifetime is left. A renewal begins at RenewAt and takes seconds, so by then a
// twelfth of the lifetime has passed without success. Alert LiqoCertificateExpiring has the same limit.
func (c Credential) LateAt() time.Time { return c.Until.Add(-c.Until.Sub(c.From) / 4) }

// Late reports whether the renewal of the credential is overdue at the given time. The status of the ForeignCluster and liqoctl doctor warn from then
// on.
func (c Credential) Late(now time.Time) bool { return c.Expires() && !now.Before(c.LateAt()) }

// Granted reports whether AuthParams hold a credential, valid or not.
func Granted(params *authv1beta1.AuthParams) bool {
	return params != nil && (len(params.SignedCRT) > 0 || params.Token != nil || params.AwsConfig != nil)
}

// Newer reports whether the credential in a is preferable to the credential in b: a has a credential, and b has none or one that expires earlier. An
// access key never expires.
func Newer(a, b *authv1beta1.AuthParams) bool {
	first, err := CredentialOf(a)
	if err != nil {
		return false
	}
	second, err := CredentialOf(b)
	switch {
	case err != nil:
		return true
	case !first.Expires() || !second.Expires():
		return second.Expires()
	}
	return first.Until.After(second.Until)
}

// Adopt copies the credential of from to into, where it replaces the present one.
func Adopt(into, from *authv1beta1.AuthParams) {
	into.SignedCRT, into.Token, into.AwsConfig = from.SignedCRT, from.Token.DeepCopy(), from.AwsConfig.DeepCopy()
}

// CheckCredential returns nil if AuthParams hold a credential of subject for the key in request, which needs no renewal yet at the given
// time. Otherwise the error says why it can't be used.
func CheckCredential(params *authv1beta1.AuthParams, request []byte, subject Subject, now time.Time) error {
	if params == nil || params.Token == nil {
		return CheckCertificate(CertificateIn(params), request, subject, now)
	}
	if err := CheckIssuedToken(params.Token, request, subject); err != nil {
		return err
	}
	credential, err := CredentialOf(params)
	if err != nil {
		return err
	}
	if !now.Before(credential.RenewAt()) {
		return fmt.Errorf("the token should have been renewed at %s", credential.RenewAt().UTC().Format(time.RFC3339))
	}
	return nil
}

// CertificateIn returns the certificate in AuthParams; nil when params is nil.
func CertificateIn(params *authv1beta1.AuthParams) []byte {
	if params == nil {
		return nil
	}
	return params.SignedCRT
}

// CheckIssuedToken returns nil if a token is for subject and sealed for the key in request, expired or not. Otherwise the error says what
// differs.
func CheckIssuedToken(token *authv1beta1.SealedToken, request []byte, subject Subject) error {
	holder, err := Holder(request)
	if err != nil {
		return err
	}
	as := TokenSubject(subject)
	switch {
	case token.Holder != holder:
		return errors.New("the token is sealed for another key than the request's")
	case token.User != as.User || token.Group != as.Group:
		return fmt.Errorf("the token is for user %q and group %q, want %q and %q", token.User, token.Group, as.User, as.Group)
	}
	return nil
}

// CheckCredentialHolder returns nil if the credential in AuthParams is for key: the certificate was issued for it, or the token can be opened
// with it. Otherwise the error names the field. An access key of AWS is not bound to a key of this cluster.
func CheckCredentialHolder(params *authv1beta1.AuthParams, key crypto.Signer) error {
	if params.AwsConfig != nil {
		return nil
	}
	if params.Token == nil {
		return InField("authParams.signedCRT", CheckHolder(params.SignedCRT, key))
	}
	_, err := OpenToken(params.Token, key)
	return InField("authParams.token", err)
}

// TokenUserPrefix precedes the consumer's cluster ID in the user name of its control plane, if the control plane authenticates with a token.
const TokenUserPrefix = OrganizationControlPlane + ":"

// TokenSubject returns the user and the group that a consumer acts as with a token, instead of the subject of a certificate.
//
// A ServiceAccount that may impersonate a user and a group may also impersonate the user without the group. Virtual kubelets gain nothing by that,
// since their rights are bound to the group. But the rights of the control plane are bound to the user, and admission policies recognize the control
// plane by its group. So with a token, the name of the user identifies the control plane, and there is no group.
func TokenSubject(subject Subject) Subject {
	if subject.Group == OrganizationControlPlane {
		return Subject{User: TokenUserPrefix + subject.User}
	}
	return subject
}

// Holder returns the fingerprint of the public key in a PEM certificate request.
func Holder(request []byte) (string, error) {
	csr, err := ParseRequest(request)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(csr.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:]), nil
}

// Recipient returns the recipient for which a token must be encrypted, so that only the holder of the key in a PEM certificate request can read it.
func Recipient(request []byte) (age.Recipient, error) {
	csr, err := ParseRequest(request)
	if err != nil {
		return nil, err
	}
	if err := acceptKey(csr.PublicKey); err != nil {
		return nil, err
	}
	public, err := ssh.NewPublicKey(csr.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("encrypting for the key of the certificate request: %w", err)
	}
	if _, is := csr.PublicKey.(ed25519.PublicKey); is {
		return agessh.NewEd25519Recipient(public)
	}
	return agessh.NewRSARecipient(public)
}

// maxToken is the maximum length of a token, in bytes.
const maxToken = 16 << 10

// OpenToken returns the bearer token, which it decrypts with the key of this cluster. Errors never contain key material.
func OpenToken(token *authv1beta1.SealedToken, key crypto.Signer) (string, error) {
	var identity age.Identity
	var err error
	switch key := key.(type) {
	case ed25519.PrivateKey:
		identity, err = agessh.NewEd25519Identity(key)
	case *rsa.PrivateKey:
		identity, err = agessh.NewRSAIdentity(key)
	default:
		err = fmt.Errorf("a key of type %T can't decrypt tokens", key)
	}
	if err != nil {
		return "", err
	}
	plain, err := age.Decrypt(bytes.NewReader(token.Sealed), identity)
	if err != nil {
		return "", errors.New("the token was sealed for another key than this cluster's")
	}
	text, err := io.ReadAll(io.LimitReader(plain, maxToken+1))
	switch {
	case err != nil:
		return "", errors.New("the token was changed after it was sealed")
	case len(text) == 0 || len(text) > maxToken:
		return "", fmt.Errorf("the token has %d bytes, want 1 to %d", len(text), maxToken)
	}
	for _, c := range text { // only characters of a bearer token (RFC 6750), so that the token can't add an HTTP header
		if c <= ' ' || c > '~' {
			return "", errors.New("the token has characters that no bearer token has")
		}
	}
	return string(text), nil
}
