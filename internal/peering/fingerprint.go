package peering

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
)

// Fingerprint identifies a key or certificate in PEM for people to compare, in the format of OpenSSH: SHA256: and the unpadded base64 of the
// SHA-256 sum of its DER encoding. Data that is not PEM is summed as it is.
func Fingerprint(data []byte) string {
	if block, _ := pem.Decode(data); block != nil {
		data = block.Bytes
	}
	sum := sha256.Sum256(data)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}
