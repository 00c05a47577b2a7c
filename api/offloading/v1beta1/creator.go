package v1beta1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	// longestLabelValue is the maximum length of a label value in Kubernetes.
	longestLabelValue = 63
	// creatorHash is the number of hexadecimal digits of the hash that makes shortened or altered names unique.
	creatorHash = 8
)

// CreatorLabel returns the value of LabelCreatorUser for a user. It is the user name if that is a valid label value. Otherwise, invalid
// characters become hyphens, the name is truncated, and a hash of the whole name is appended, so that two such names differ.
func CreatorLabel(user string) string {
	clean := strings.Map(func(r rune) rune {
		if alphanumeric(r) || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, user)
	trimmed := strings.Trim(clean, "-._")
	if trimmed == user && len(user) <= longestLabelValue {
		return user
	}
	sum := sha256.Sum256([]byte(user))
	suffix := hex.EncodeToString(sum[:])[:creatorHash]
	if keep := longestLabelValue - len(suffix) - 1; len(trimmed) > keep {
		trimmed = trimmed[:keep]
	}
	if trimmed == "" {
		return suffix
	}
	return trimmed + "-" + suffix
}

func alphanumeric(r rune) bool {
	return (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9')
}
