package peering

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"

	"liqo.io/liqo/internal/pki"
)

// Algorithm is the algorithm of a cluster's key pair.
type Algorithm int

// Algorithms of key pairs.
const (
	// Ed25519 is the default.
	Ed25519 Algorithm = iota
	// RSA2048 is for control planes that refuse Ed25519 certificates (TLS compatibility mode).
	RSA2048
)

const rsaBits = 2048

// NewKey generates a key pair from random. It returns the private key as PKCS #8 in PEM and the public key as PKIX in PEM.
func NewKey(algorithm Algorithm, random io.Reader) (privatePEM, publicPEM []byte, err error) {
	var key crypto.Signer
	switch algorithm {
	case Ed25519:
		_, key, err = ed25519.GenerateKey(random)
	case RSA2048:
		key, err = rsa.GenerateKey(random, rsaBits)
	default:
		err = fmt.Errorf("algorithm %d is unknown", algorithm)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("creating a key pair: %w", err)
	}
	if privatePEM, err = pki.PrivateKey(key); err != nil {
		return nil, nil, err
	}
	publicPEM, err = pki.PublicKey(key.Public())
	return privatePEM, publicPEM, err
}

// ParsePrivateKey parses a PEM private key in PKCS #8. Errors never contain key material.
func ParsePrivateKey(data []byte) (crypto.Signer, error) {
	der, err := onlyBlock(data, pki.TypePrivateKey)
	if err != nil {
		return nil, fmt.Errorf("reading the private key: %w", err)
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("reading the private key: it is not PKCS #8")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("reading the private key: a %T can't sign", key)
	}
	if err := acceptKey(signer.Public()); err != nil {
		return nil, fmt.Errorf("reading the private key: %w", err)
	}
	return signer, nil
}

// PublicKey returns the public key of key in PEM.
func PublicKey(key crypto.Signer) ([]byte, error) { return pki.PublicKey(key.Public()) }

// ParsePublicKey parses a PEM public key. It returns an ed25519.PublicKey, or an *rsa.PublicKey of at least 2048 bits.
func ParsePublicKey(data []byte) (crypto.PublicKey, error) {
	der, err := onlyBlock(data, pki.TypePublicKey)
	if err != nil {
		return nil, fmt.Errorf("reading the public key: %w", err)
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, fmt.Errorf("reading the public key: %w", err)
	}
	if err := acceptKey(key); err != nil {
		return nil, fmt.Errorf("reading the public key: %w", err)
	}
	return key, nil
}

// acceptKey refuses keys of other algorithms, and RSA keys of less than 2048 bits.
func acceptKey(key crypto.PublicKey) error {
	switch key := key.(type) {
	case ed25519.PublicKey:
		return nil
	case *rsa.PublicKey:
		if key.N.BitLen() < rsaBits {
			return fmt.Errorf("an RSA key of %d bits, want at least %d", key.N.BitLen(), rsaBits)
		}
		return nil
	default:
		return fmt.Errorf("%T is neither Ed25519 nor RSA", key)
	}
}

// sameKey compares two public keys by value.
func sameKey(a, b crypto.PublicKey) bool {
	equal, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && equal.Equal(b)
}

// onlyBlock decodes data that must be exactly one PEM block of the given type. With two blocks, the code that checks the data and the code
// that uses it could read different ones.
func onlyBlock(data []byte, blockType string) ([]byte, error) {
	block, rest := pem.Decode(data)
	switch {
	case block == nil:
		return nil, errors.New("it is not PEM")
	case block.Type != blockType:
		return nil, fmt.Errorf("the PEM block is a %q, want %q", block.Type, blockType)
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("there is more after the first PEM block")
	case len(block.Headers) > 0:
		return nil, errors.New("the PEM block has headers")
	case !bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN ")):
		return nil, errors.New("there is text before the PEM block")
	}
	return block.Bytes, nil
}
