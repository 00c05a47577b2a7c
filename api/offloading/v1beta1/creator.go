package v1beta1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	// longestLabelValue is the longest label value.
	longestLabelValue = 63
	// creatorHash is how many hexadecimal digits keep two names apart.
	creatorHash = 8
)

// CreatorLabel returns the value of LabelCreatorUser for a user: the name itself where it is a label value, else as much of it as fits with
// other characters turned into hyphens, and a hash that keeps two such names apart.
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
