package invite

import (
	"strings"
	"testing"
	"time"
)

// TestInvitationsForProviders: an invitation is good for the cluster that its token names.
func TestInvitationsForProviders(t *testing.T) {
	token := func(consumer string) string {
		return Token{ID: "AAECAwQFBgcI", Expires: time.Unix(2_000_000_000, 0), Consumer: consumer}.Text([]byte("secret"))
	}
	for name, test := range map[string]struct {
		invitation Invitation
		err        string
	}{
		"good":            {Invitation{"https://rome.example.org:8443", token("milan")}, ""},
		"for another":     {Invitation{"https://rome.example.org", token("naples")}, `the token is for cluster "naples", not for milan`},
		"for anybody":     {Invitation{"https://rome.example.org", token("")}, `the token is for cluster "", not for milan`},
		"no token":        {Invitation{"https://rome.example.org", "hello"}, "this is not a token"},
		"not encrypted":   {Invitation{"http://rome.example.org", token("milan")}, "want https://host[:port]"},
		"no address":      {Invitation{"", token("milan")}, "want https://host[:port]"},
		"nothing in fact": {Invitation{}, "want https://host[:port]"},
	} {
		err := test.invitation.Check("milan")
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: error %v, want %q", name, err, test.err)
		}
	}
}
