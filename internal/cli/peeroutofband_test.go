package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"liqo.io/liqo/internal/peering"
)

// TestInvalidPeerCommands: a mistake in a copied command is reported before any cluster is called.
func TestInvalidPeerCommands(t *testing.T) {
	token := func(change func(*peering.Token)) string {
		out := peering.Token{ID: "AAECAwQFBgcI", Expires: time.Now().Add(time.Hour), Pin: bytes.Repeat([]byte{7}, 32)}
		if change != nil {
			change(&out)
		}
		return out.Text([]byte("secret"))
	}
	good := []string{"peer", "out-of-band", "milan", "--auth-url", "https://198.51.100.7", "--cluster-id", "milan", "--auth-token", token(nil)}
	with := func(position int, value string) []string {
		out := append([]string(nil), good...)
		out[position] = value
		return out
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no name":             {append([]string{"peer", "out-of-band"}, good[3:]...), "want one argument, the name of the provider"},
		"a name that is none": {with(2, "Milan!"), `NAME is "Milan!"`},
		"no URL":              {good[:3], `required flag(s) "auth-token", "auth-url", "cluster-id" not set: the administrator of the provider gets the whole command`},
		"no token":            {good[:7], `required flag(s) "auth-token" not set: the administrator of the provider gets the whole command, with a token, from liqoctl generate peer-command`},
		"a URL that is none":  {with(4, "198.51.100.7"), "--auth-url: \"198.51.100.7\" is not the URL of an authentication service, want https://host[:port]"},
		"no cluster ID":       {with(6, ""), `--cluster-id is ""`},
		"half a token":        {with(8, token(nil)[:40]), "--auth-token: this is no token of a Liqo peer command: copy the command whole"},
		"an old token":        {with(8, token(func(t *peering.Token) { t.Expires = time.Now().Add(-time.Hour) })), "the token has expired"},
		"a server nowhere":    {append(with(2, "milan"), "--gw-server-service-location", "Moon"), "--gw-server-service-location Moon: want Provider or Consumer"},
		"another's Service":   {append(with(2, "milan"), "--gw-server-service-type", "NodePort"), "the provider decides how its own is reached, with liqoctl install --service-type"},
		"a type that is none": {
			append(with(2, "milan"), "--gw-server-service-location", "Consumer", "--gw-server-service-type", "Ingress"),
			"--gw-server-service-type Ingress: want one of LoadBalancer, NodePort, ClusterIP",
		},
		"an endless token": {[]string{"generate", "peer-command", "--token-lifetime", "9000h"}, "--token-lifetime 9000h0m0s: want more than 0 and at most 720h0m0s"},
		"an endless token for one cluster": {
			[]string{"generate", "peer-command", "--token-lifetime", "9000h", "--consumer-cluster-id", "rome"}, "--token-lifetime 9000h0m0s: want more than 0 and at most 8760h0m0s",
		},
		"a certificate of nowhere": {[]string{"generate", "peer-command", "--auth-certificate", "a.pem"}, "--auth-certificate a.pem is for a certificate at another URL: give that one with --auth-url"},
		"a door that is none":      {[]string{"generate", "peer-command", "--auth-url", "milan"}, "--auth-url: \"milan\" is not the URL"},
		"peer by two names":        {[]string{"peer", "milan", "naples"}, "want at most one argument, the name of a cluster that has invited this one, got 2"},
		"peer twice the same":      {[]string{"peer", "milan", "--remote-context", "milan"}, "milan is named, and so is --remote-context: leave one of them out"},
		"peer by another way":      {[]string{"peer", "milan", "--in-band"}, "--in-band and --proxy-url do not go with NAME milan: the invitation of milan says how its API server is reached"},
		"peer, and invite":         {[]string{"peer", "milan", "--invite"}, "--invite does not go with NAME milan: this cluster uses the invitation that milan left here"},
		"peer by force":            {[]string{"peer", "milan", "--force"}, "--force does not go with NAME milan: if milan knows another key for the ID of this cluster"},
		"unpeer by two names":      {[]string{"unpeer", "milan", "naples"}, "want at most one argument, the name of the provider, got 2"},
		"unpeer twice the same":    {[]string{"unpeer", "milan", "--remote-context", "milan"}, "milan is named, and so is --remote-context: leave one of them out"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := run(t, test.args...)
			if code != 1 || out != "" || !strings.Contains(errOut, test.want) {
				t.Errorf("code %d, stdout %q, stderr %q, want %q", code, out, errOut, test.want)
			}
			if strings.Contains(errOut, "AAEC") {
				t.Errorf("the token is told: %s", errOut)
			}
		})
	}
}
