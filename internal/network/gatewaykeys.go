package network

import (
	"bytes"
	"crypto/ecdh"
	"fmt"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// KeyLength is the length of WireGuard keys, in bytes.
const KeyLength = 32

// KeyPair makes a private and a public key from 32 random bytes, and returns them as the data of a gateway's Secret.
func KeyPair(random [KeyLength]byte) (map[string][]byte, error) {
	private := random
	// Clamp the key as Curve25519 requires: https://cr.yp.to/ecdh.html
	private[0] &= 248
	private[31] = private[31]&127 | 64
	public, err := publicKey(private[:])
	if err != nil {
		return nil, err
	}
	return map[string][]byte{networkingv1beta1.SecretPrivateKey: private[:], networkingv1beta1.SecretPublicKey: public}, nil
}

// CheckKeys returns an error if the data of a gateway's Secret is invalid. The error contains no key.
func CheckKeys(data map[string][]byte) error {
	for _, key := range []string{networkingv1beta1.SecretPrivateKey, networkingv1beta1.SecretPublicKey} {
		if n := len(data[key]); n != KeyLength {
			return fmt.Errorf("its key %s has %d bytes, want the %d bytes of a WireGuard key, not its text", key, n, KeyLength)
		}
	}
	public, err := publicKey(data[networkingv1beta1.SecretPrivateKey])
	if err != nil {
		return err
	}
	if !bytes.Equal(public, data[networkingv1beta1.SecretPublicKey]) {
		return fmt.Errorf("its key %s does not belong to its key %s: replace both", networkingv1beta1.SecretPublicKey, networkingv1beta1.SecretPrivateKey)
	}
	return nil
}

func publicKey(private []byte) ([]byte, error) {
	key, err := ecdh.X25519().NewPrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("reading a private key: %w", err)
	}
	return key.PublicKey().Bytes(), nil
}
