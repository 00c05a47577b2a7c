package dataplane

import (
	"encoding/base64"
	"fmt"
	"io"
)

// PublicKey of a WireGuard peer (Curve25519).
type PublicKey [32]byte

// String is the usual base64 form.
func (k PublicKey) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// hidden stands for every private key that somebody prints.
const hidden = "(hidden)"

// PrivateKey of a WireGuard device (Curve25519). No way of printing or encoding it shows it.
type PrivateKey [32]byte

// String does not tell the key.
func (PrivateKey) String() string { return hidden }

// GoString does not tell the key.
func (PrivateKey) GoString() string { return hidden }

// Format does not tell the key, whatever the verb.
func (PrivateKey) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, hidden) }

// MarshalText does not tell the key; JSON and YAML use it.
func (PrivateKey) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalBinary does not tell the key; gob uses it.
func (PrivateKey) MarshalBinary() ([]byte, error) { return []byte(hidden), nil }
