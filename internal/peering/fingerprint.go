package peering

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
)

// Fingerprint returns a digest of a PEM key or certificate that people can compare. Its format is that of OpenSSH: "SHA256:" and the
// unpadded base64 of the SHA-256 sum of the DER encoding. For data that is not PEM it sums the data itself.
func Fingerprint(data []byte) string {
	if block, _ := pem.Decode(data); block != nil {
		data = block.Bytes
	}
	sum := sha256.Sum256(data)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}
