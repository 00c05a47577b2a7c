package dataplane

import (
	"encoding/base64"
	"fmt"
	"io"
)

// PublicKey is the public key of a WireGuard peer (Curve25519).
type PublicKey [32]byte

// String returns the usual base64 form.
func (k PublicKey) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// hidden is printed in place of every private key.
const hidden = "(hidden)"

// PrivateKey is the private key of a WireGuard device (Curve25519). Printing or encoding it never reveals the key.
type PrivateKey [32]byte

// String hides the key.
func (PrivateKey) String() string { return hidden }

// GoString hides the key.
func (PrivateKey) GoString() string { return hidden }

// Format hides the key, whatever the verb.
func (PrivateKey) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, hidden) }

// MarshalText hides the key. JSON and YAML use this method.
func (PrivateKey) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalBinary hides the key. Package gob uses this method.
func (PrivateKey) MarshalBinary() ([]byte, error) { return []byte(hidden), nil }
