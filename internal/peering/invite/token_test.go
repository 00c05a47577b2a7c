package invite

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"
)

// then is the time of all tests of this package.
var then = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var (
	doorSecret = []byte(strings.Repeat("a1", 64))
	doorToken  = Token{ID: "AAECAwQFBgcI", Expires: then.Add(time.Hour).Truncate(time.Second), Pin: bytes.Repeat([]byte{7}, sha256.Size)}
)

func TestTokensRoundTrip(t *testing.T) {
	for name, change := range map[string]func(*Token){
		"for whoever comes first": func(*Token) {},
		"for one cluster":         func(t *Token) { t.Consumer = "rome" },
		"without a pin":           func(t *Token) { t.Pin = nil },
	} {
		t.Run(name, func(t *testing.T) {
			want := doorToken
			change(&want)
			text := want.Text(doorSecret)
			got, err := CheckToken(doorSecret, text, "rome", then)
			if err != nil {
				t.Fatal(err)
			}
			read, err := ParseToken(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, token := range []Token{got, read} {
				if token.ID != want.ID || !token.Expires.Equal(want.Expires) || token.Consumer != want.Consumer || !bytes.Equal(token.Pin, want.Pin) {
					t.Errorf("token %+v, want %+v", token, want)
				}
			}
			if strings.ContainsAny(text, " '\"$&|;<>*?\\") {
				t.Errorf("a shell would take %q for something else", text)
			}
		})
	}
}

func TestTokensAreRefused(t *testing.T) {
	text := doorToken.Text(doorSecret)
	for name, test := range map[string]struct {
		text, consumer string
		secret         []byte
		now            time.Time
		want           error
	}{
		"nothing":                   {text: "", want: ErrNoToken},
		"a password":                {text: "correct horse battery staple", want: ErrNoToken},
		"one of another version":    {text: strings.Replace(text, "liqo1", "liqo2", 1), want: ErrNoToken},
		"one that is too long":      {text: text + strings.Repeat("a", maxTokenSize), want: ErrNoToken},
		"a guessed seal":            {text: text[:strings.LastIndexByte(text, '.')+1] + strings.Repeat("A", 43), want: ErrTokenForged},
		"no seal":                   {text: text[:strings.LastIndexByte(text, '.')+1], want: ErrTokenForged},
		"another pin":               {text: resealed(Token{ID: doorToken.ID, Expires: doorToken.Expires, Pin: make([]byte, sha256.Size)}, text), want: ErrTokenForged},
		"a later end":               {text: resealed(Token{ID: doorToken.ID, Expires: then.Add(time.Hour * 1000), Pin: doorToken.Pin}, text), want: ErrTokenForged},
		"of another provider":       {secret: []byte("another secret"), want: ErrTokenForged},
		"a Secret that was emptied": {secret: []byte{}, want: ErrTokenForged},
		"too late":                  {now: then.Add(2 * time.Hour), want: ErrTokenExpired},
		"for another cluster": {
			text: Token{ID: doorToken.ID, Expires: doorToken.Expires, Consumer: "naples"}.Text(doorSecret), want: ErrTokenTaken,
		},
	} {
		t.Run(name, func(t *testing.T) {
			given, secret, now := test.text, test.secret, test.now
			if given == "" && name != "nothing" {
				given = text
			}
			if secret == nil {
				secret = doorSecret
			}
			if now.IsZero() {
				now = then
			}
			_, err := CheckToken(secret, given, "rome", now)
			if !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "AAEC") {
				t.Errorf("the error tells of the token: %v", err)
			}
		})
	}
}

// resealed is another token with the seal of text.
func resealed(other Token, text string) string {
	made := other.Text(nil)
	return made[:strings.LastIndexByte(made, '.')] + text[strings.LastIndexByte(text, '.'):]
}

func TestTokenIsBoundToOneCluster(t *testing.T) {
	usedTokens, err := Redeem(nil, doorToken, "rome", then)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Redeem(usedTokens, doorToken, "rome", then)
	if err != nil || !bytes.Equal(usedTokens, again) {
		t.Errorf("the same cluster once more: %v, record %s, want %s", err, again, usedTokens)
	}
	if _, err := Redeem(usedTokens, doorToken, "thief", then); !errors.Is(err, ErrTokenTaken) {
		t.Errorf("another cluster: error %v, want %v", err, ErrTokenTaken)
	}
	other := doorToken
	other.ID, other.Expires = "AAAAAAAAAAAA", then.Add(3*time.Hour)
	later, err := Redeem(usedTokens, other, "naples", then.Add(2*time.Hour))
	if err != nil || strings.Contains(string(later), "rome") || !strings.Contains(string(later), "naples") {
		t.Errorf("a record of %s (%v), want the expired token struck out", later, err)
	}
	if _, err := Redeem([]byte("scribbled"), doorToken, "rome", then); err == nil || errors.Is(err, ErrTokenTaken) {
		t.Errorf("a record that can't be read: %v, want an error of ours", err)
	}
}

// TestTokenAdmitsOnePeering: when a Tenant of the cluster that used a token was deleted, the token admits no cluster. An unused token for any cluster
// admits that cluster only if it is newer than the deletion.
func TestTokenAdmitsOnePeering(t *testing.T) {
	usedTokens, err := Redeem(nil, doorToken, "rome", then)
	if err != nil {
		t.Fatal(err)
	}
	unused, young, reserved := doorToken, doorToken, doorToken
	unused.ID, young.ID = "AAAAAAAAAAAA", "CCCCCCCCCCCC"
	reserved.ID, reserved.Consumer = "BBBBBBBBBBBB", "rome"
	if usedTokens, err = Reserve(usedTokens, reserved, then); err != nil {
		t.Fatal(err)
	}
	if used, err := Redeem(usedTokens, reserved, "rome", then); err != nil || !bytes.Equal(used, usedTokens) {
		t.Errorf("its consumer uses it: %v, record %s, want %s", err, used, usedTokens)
	}
	others, err := SpendTokens(usedTokens, "naples", then, then)
	if err != nil || !bytes.Equal(others, usedTokens) {
		t.Errorf("the end of another cluster's Tenant: %v, record %s, want %s", err, others, usedTokens)
	}
	if usedTokens, err = Reserve(usedTokens, unused, then); err != nil {
		t.Fatal(err)
	}
	ended := then.Add(time.Minute)
	if usedTokens, err = Reserve(usedTokens, young, ended.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	spent, err := SpendTokens(usedTokens, "rome", ended, ended)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		token    Token
		consumer string
		want     error
	}{
		{doorToken, "rome", ErrTokenSpent}, {doorToken, "thief", ErrTokenTaken}, {reserved, "rome", ErrTokenSpent}, {unused, "rome", ErrTokenSpent},
		{unused, "naples", nil}, {young, "rome", nil},
	} {
		if _, err := Redeem(spent, test.token, test.consumer, then); !errors.Is(err, test.want) {
			t.Errorf("token %s of %s: error %v, want %v", test.token.ID, test.consumer, err, test.want)
		}
	}
	if again, err := SpendTokens(spent, "rome", ended, ended); err != nil || !bytes.Equal(again, spent) {
		t.Errorf("the same end once more: %v, record %s, want %s", err, again, spent)
	}
	taken, err := Redeem(spent, unused, "naples", then)
	if err != nil || strings.Count(string(taken), unused.ID) != 1 {
		t.Errorf("after its use a token is recorded as open: %s, %v", taken, err)
	}
	if again, err := SpendTokens(spent, "rome", ended, then.Add(2*time.Hour)); err != nil || strings.Contains(string(again), "rome") {
		t.Errorf("the record keeps a token that has expired: %s, %v", again, err)
	}
	if empty, err := SpendTokens(nil, "rome", then, then); err != nil || string(empty) != "{}" {
		t.Errorf("an empty record: %q, %v", empty, err)
	}
	for _, change := range []func(usedTokens []byte) ([]byte, error){
		func(usedTokens []byte) ([]byte, error) { return Reserve(usedTokens, unused, then) },
		func(usedTokens []byte) ([]byte, error) { return Redeem(usedTokens, unused, "rome", then) },
	} {
		if _, err := change([]byte("scribbled")); err == nil {
			t.Error("a record that can't be read is replaced")
		}
	}
	if _, err := SpendTokens([]byte("scribbled"), "rome", then, then); err == nil {
		t.Error("a record that can't be read is replaced")
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(doorToken.Text(doorSecret))
	f.Add("liqo1.....")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err != nil {
			return
		}
		if _, err := CheckToken(doorSecret, text, "rome", then); err == nil && token.Text(doorSecret) != text {
			t.Errorf("%q is let in, and reads as %q", text, token.Text(doorSecret))
		}
	})
}
