package invite

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Token authorizes one consumer to enroll with the provider's authentication service until it expires. It authorizes nothing else. The
// provider's administrator hands it to the consumer's administrator as one word on a command line.
type Token struct {
	// ID is unique to the token: 12 characters of base64url.
	ID string
	// Expires is the last second at which the token is valid.
	Expires time.Time
	// Consumer is the ID of the only cluster that may use the token; empty if the first cluster to use it may.
	Consumer string
	// Pin is the SHA-256 of the public key (SubjectPublicKeyInfo) of the authentication service. If it is nil, the consumer verifies the
	// service's certificate with the CAs of its system.
	Pin []byte
}

const (
	tokenVersion = "liqo1"
	tokenIDSize  = 9
	tokenFields  = 6
	// maxTokenSize is the maximum number of bytes of a token; longer ones are refused.
	maxTokenSize = 512
)

// MaxTokenLifetime is the maximum lifetime of a token for any cluster, and MaxNamedTokenLifetime of a token for one cluster, which may have to
// wait in a repository until that cluster exists. A token without an end would be a permanent password in the history of a shell.
const (
	MaxTokenLifetime      = 30 * 24 * time.Hour
	MaxNamedTokenLifetime = 365 * 24 * time.Hour
)

// Errors of tokens. They reveal nothing about what a valid token would look like.
var (
	ErrNoToken      = errors.New("this is not a token of a Liqo peer command: copy the whole command")
	ErrTokenForged  = errors.New("the token is unknown here: another cluster created it, or the provider has replaced its Secret since")
	ErrTokenExpired = errors.New("the token has expired: ask the provider's administrator for another command (liqoctl generate peer-command)")
	ErrTokenSpent   = errors.New("a peering of this cluster has ended since the token was created, and a token admits one peering only: " +
		"ask the provider's administrator for another command (liqoctl generate peer-command), or for another invitation if this token is from one (--invite of liqoctl peer in-band or out-of-band)")
	ErrTokenTaken = errors.New("the token was created for another cluster, or another cluster has used it: ask the provider's administrator for another command (liqoctl generate peer-command)")
)

// NewTokenID generates the ID of a new token from random.
func NewTokenID(random io.Reader) (string, error) {
	raw := make([]byte, tokenIDSize)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", fmt.Errorf("reading %d random bytes: %w", tokenIDSize, err)
	}
	return base64.RawURLEncoding.EncodeToString(raw), nil
}

// Text returns the token in the form that is handed over. Its last field is an HMAC with the provider's secret, so that no one else can
// create or change a token.
func (t Token) Text(secret []byte) string {
	body := strings.Join([]string{
		tokenVersion, strconv.FormatInt(t.Expires.Unix(), 36), t.ID, t.Consumer, base64.RawURLEncoding.EncodeToString(t.Pin),
	}, ".")
	return body + "." + base64.RawURLEncoding.EncodeToString(seal(secret, body))
}

func seal(secret []byte, body string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(body))
	return mac.Sum(nil)
}

// ParseToken parses a token without verifying its HMAC: its holder does not have the provider's secret. Errors never contain the token.
func ParseToken(text string) (Token, error) {
	fields := strings.Split(text, ".")
	if len(text) > maxTokenSize || len(fields) != tokenFields || fields[0] != tokenVersion {
		return Token{}, ErrNoToken
	}
	expires, err := strconv.ParseInt(fields[1], 36, 64)
	if err != nil || expires <= 0 {
		return Token{}, ErrNoToken
	}
	pin, err := base64.RawURLEncoding.Strict().DecodeString(fields[4])
	if err != nil || (len(pin) != 0 && len(pin) != sha256.Size) {
		return Token{}, ErrNoToken
	}
	if len(pin) == 0 {
		pin = nil
	}
	if id, err := base64.RawURLEncoding.Strict().DecodeString(fields[2]); err != nil || len(id) != tokenIDSize {
		return Token{}, ErrNoToken
	}
	return Token{ID: fields[2], Expires: time.Unix(expires, 0), Consumer: fields[3], Pin: pin}, nil
}

// CheckToken returns the token if the consumer may enroll with it, provided that Redeem agrees. Otherwise the error says why not. The time
// to compare the HMAC does not depend on its value.
func CheckToken(secret []byte, text, consumer string, now time.Time) (Token, error) {
	token, err := ParseToken(text)
	if err != nil {
		return Token{}, err
	}
	if len(secret) == 0 {
		return Token{}, ErrTokenForged
	}
	cut := strings.LastIndexByte(text, '.')
	given, err := base64.RawURLEncoding.Strict().DecodeString(text[cut+1:])
	switch {
	case err != nil, subtle.ConstantTimeCompare(given, seal(secret, text[:cut])) != 1:
		return Token{}, ErrTokenForged
	case now.After(token.Expires):
		return Token{}, ErrTokenExpired
	case token.Consumer != "" && token.Consumer != consumer:
		return Token{}, ErrTokenTaken
	}
	return token, nil
}

// redeemed is the record of one token: a used token, an unused token for one consumer, or an open token. An open token is for any cluster, and no
// cluster has used it yet.
type redeemed struct {
	Consumer string `json:"consumer"`
	Expires  int64  `json:"expires"`
	// Spent means that the peering has ended since: a Tenant of the consumer was deleted.
	Spent bool `json:"spent,omitempty"`
	// Made is the creation time of an open token, in Unix seconds. Ended lists the clusters whose peering has ended after Made.
	Made  int64    `json:"made,omitempty"`
	Ended []string `json:"ended,omitempty"`
}

// openKey returns the key of an open token in the record. It differs from every token ID, so that an older release, which does not know open tokens,
// does not treat it as a used token.
func openKey(id string) string { return "open " + id }

// Redeem records in usedTokens, the record of used tokens, that the consumer uses this token. It refuses a token that another cluster has used,
// and a token that is older than the end of a peering of the consumer. It returns the record to be stored.
func Redeem(usedTokens []byte, token Token, consumer string, now time.Time) ([]byte, error) {
	used, err := readUsedTokens(usedTokens)
	if err != nil {
		return nil, err
	}
	switch before, ok := used[token.ID]; {
	case ok && before.Consumer != consumer:
		return nil, ErrTokenTaken
	case before.Spent, slices.Contains(used[openKey(token.ID)].Ended, consumer):
		return nil, ErrTokenSpent
	}
	delete(used, openKey(token.ID))
	used[token.ID] = redeemed{Consumer: consumer, Expires: token.Expires.Unix()}
	return writeUsedTokens(used, now)
}

// Reserve adds a new token to usedTokens, the record of used tokens, and returns the record to be stored. Then SpendTokens finds the token even if it
// is never used. A token for one consumer is recorded as used by that consumer, and a token for any cluster as an open token.
func Reserve(usedTokens []byte, token Token, now time.Time) ([]byte, error) {
	if token.Consumer != "" {
		return Redeem(usedTokens, token, token.Consumer, now)
	}
	used, err := readUsedTokens(usedTokens)
	if err != nil {
		return nil, err
	}
	used[openKey(token.ID)] = redeemed{Expires: token.Expires.Unix(), Made: now.Unix()}
	return writeUsedTokens(used, now)
}

// SpendTokens records in usedTokens, the record of used tokens, that the peering of the consumer has ended. The tokens that the consumer used, and those that
// were made for it before, are no longer valid. The end of the peering began at ended: open tokens that existed then are no longer valid for that consumer.
// SpendTokens returns the record to be stored.
func SpendTokens(usedTokens []byte, consumer string, ended, now time.Time) ([]byte, error) {
	used, err := readUsedTokens(usedTokens)
	if err != nil {
		return nil, err
	}
	for id, token := range used {
		switch {
		case token.Consumer == consumer:
			token.Spent = true
		case token.Consumer == "" && token.Made <= ended.Unix() && !slices.Contains(token.Ended, consumer):
			token.Ended = append(token.Ended, consumer)
		}
		used[id] = token
	}
	return writeUsedTokens(used, now)
}

func readUsedTokens(usedTokens []byte) (map[string]redeemed, error) {
	used := map[string]redeemed{}
	if len(usedTokens) > 0 {
		if err := json.Unmarshal(usedTokens, &used); err != nil {
			return nil, fmt.Errorf("reading the record of used tokens: %w", err)
		}
	}
	return used, nil
}

// writeUsedTokens encodes the record of used tokens. It drops expired tokens, so that the record does not grow forever.
func writeUsedTokens(used map[string]redeemed, now time.Time) ([]byte, error) {
	maps.DeleteFunc(used, func(_ string, r redeemed) bool { return now.Unix() > r.Expires })
	return json.Marshal(used)
}
