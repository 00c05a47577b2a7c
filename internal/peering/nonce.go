package peering

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
)

// NonceSize is the number of random bytes in a nonce.
const NonceSize = 64

// NewNonce returns the base64 text of NonceSize bytes read from random.
func NewNonce(random io.Reader) ([]byte, error) {
	raw := make([]byte, NonceSize)
	if _, err := io.ReadFull(random, raw); err != nil {
		return nil, fmt.Errorf("reading %d random bytes: %w", NonceSize, err)
	}
	return []byte(base64.StdEncoding.EncodeToString(raw)), nil
}

// CheckNonce returns an error unless nonce is the base64 text of NonceSize bytes. A cluster signs only valid nonces. If it signed arbitrary data, an
// attacker could make it sign a certificate request.
func CheckNonce(nonce []byte) error {
	raw, err := base64.StdEncoding.Strict().DecodeString(string(nonce))
	if err != nil {
		return fmt.Errorf("decoding the nonce as base64: %w", err)
	}
	if len(raw) != NonceSize {
		return fmt.Errorf("the nonce has %d bytes, want %d", len(raw), NonceSize)
	}
	return nil
}

// Sign returns the signature of a nonce. Ed25519 signs the text itself; RSA signs its SHA-256 by PKCS #1 v1.5. Both signatures are
// deterministic.
func Sign(key crypto.Signer, nonce []byte) ([]byte, error) {
	if err := CheckNonce(nonce); err != nil {
		return nil, err
	}
	var signature []byte
	var err error
	switch key.Public().(type) {
	case ed25519.PublicKey:
		signature, err = key.Sign(nil, nonce, crypto.Hash(0))
	case *rsa.PublicKey:
		digest := sha256.Sum256(nonce)
		signature, err = key.Sign(nil, digest[:], crypto.SHA256)
	default:
		return nil, fmt.Errorf("signing the nonce: %T is neither Ed25519 nor RSA", key.Public())
	}
	if err != nil {
		return nil, fmt.Errorf("signing the nonce: %w", err)
	}
	return signature, nil
}

// ErrSignature means that the signature of the nonce is not by the given key.
var ErrSignature = errors.New("the signature of the nonce does not belong to this public key")

// Verify returns nil if signature is the signature of nonce by the private key that belongs to publicKey (PEM).
func Verify(publicKey, nonce, signature []byte) error {
	if err := CheckNonce(nonce); err != nil {
		return err
	}
	key, err := ParsePublicKey(publicKey)
	if err != nil {
		return err
	}
	switch key := key.(type) {
	case ed25519.PublicKey:
		if !ed25519.Verify(key, nonce, signature) {
			return ErrSignature
		}
	case *rsa.PublicKey:
		digest := sha256.Sum256(nonce)
		if rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature) != nil {
			return ErrSignature
		}
	}
	return nil
}

// SignedNonce returns the signature for the Secret of a signed nonce: the present one if it verifies with our key, else a new one.
func SignedNonce(key crypto.Signer, publicKey, nonce, present []byte) ([]byte, error) {
	if len(present) > 0 && Verify(publicKey, nonce, present) == nil {
		return bytes.Clone(present), nil
	}
	return Sign(key, nonce)
}
