package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
)

// TestInvalidPeerCommands: a mistake in a copied command is reported before any cluster is called.
func TestInvalidPeerCommands(t *testing.T) {
	token := func(change func(*invite.Token)) string {
		out := invite.Token{ID: "AAECAwQFBgcI", Expires: time.Now().Add(time.Hour), Pin: bytes.Repeat([]byte{7}, 32)}
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
		"no URL":              {good[:3], `required flag(s) "auth-token", "auth-url", "cluster-id" not set: liqoctl generate peer-command, run by the administrator of the provider, prints the whole command`},
		"no token":            {good[:7], `required flag(s) "auth-token" not set: liqoctl generate peer-command, run by the administrator of the provider, prints the whole command, with a token`},
		"a URL that is none":  {with(4, "198.51.100.7"), "--auth-url: \"198.51.100.7\" is not the URL of an authentication service, want https://host[:port]"},
		"no cluster ID":       {with(6, ""), `--cluster-id is ""`},
		"half a token":        {with(8, token(nil)[:40]), "--auth-token: this is not a token of a Liqo peer command: copy the whole command"},
		"an old token":        {with(8, token(func(t *invite.Token) { t.Expires = time.Now().Add(-time.Hour) })), "the token has expired"},
		"a server nowhere":    {append(with(2, "milan"), "--gw-server-service-location", "Moon"), "--gw-server-service-location Moon: want Provider or Consumer"},
		"another's Service":   {append(with(2, "milan"), "--gw-server-service-type", "NodePort"), "the administrator of the provider sets the type of its own, with liqoctl install --service-type"},
		"a type that is none": {
			append(with(2, "milan"), "--gw-server-service-location", "Consumer", "--gw-server-service-type", "Ingress"),
			"--gw-server-service-type Ingress: want one of LoadBalancer, NodePort, ClusterIP",
		},
		"a gateway nowhere": {append(with(2, "milan"), "--gw-client-address", "a_b"), "--gw-client-address a_b: want an IP address or a host name"},
		"a gateway elsewhere": {
			append(with(2, "milan"), "--gw-server-service-location", "Consumer", "--gw-client-address", "100.64.0.7"),
			"--gw-client-address 100.64.0.7 is for a gateway server in the provider (--gw-server-service-location Provider): addresses of a server in this cluster are chart value",
		},
		"a gateway port that is none": {[]string{"generate", "peer-command", "--gw-client-port", "99999"}, "--gw-client-port 99999: want a port"},
		"an endless token":            {[]string{"generate", "peer-command", "--token-lifetime", "9000h"}, "--token-lifetime 9000h0m0s: want more than 0 and at most 720h0m0s"},
		"an endless token for one cluster": {
			[]string{"generate", "peer-command", "--token-lifetime", "9000h", "--consumer-cluster-id", "rome"}, "--token-lifetime 9000h0m0s: want more than 0 and at most 8760h0m0s",
		},
		"a certificate of nowhere": {[]string{"generate", "peer-command", "--auth-certificate", "a.pem"}, "--auth-certificate a.pem is for a certificate at another URL: give that one with --auth-url"},
		"a door that is none":      {[]string{"generate", "peer-command", "--auth-url", "milan"}, "--auth-url: \"milan\" is not the URL"},
		"peer by two names":        {[]string{"peer", "milan", "naples"}, "want at most one argument, the name of a cluster that has invited this one, got 2"},
		"peer twice the same":      {[]string{"peer", "milan", "--remote-context", "milan"}, "argument milan and flag --remote-context exclude each other: leave one of them out"},
		"peer by another way":      {[]string{"peer", "milan", "--in-band"}, "--in-band and --proxy-url do not go with NAME milan: the invitation of milan says how its API server is reached"},
		"peer, and invite":         {[]string{"peer", "milan", "--invite"}, "--invite does not go with NAME milan: this cluster uses the invitation that milan left here"},
		"peer by force":            {[]string{"peer", "milan", "--force"}, "--force does not go with NAME milan: if milan knows another key for the ID of this cluster"},
		"unpeer by two names":      {[]string{"unpeer", "milan", "naples"}, "want at most one argument, the name of the provider, got 2"},
		"unpeer twice the same":    {[]string{"unpeer", "milan", "--remote-context", "milan"}, "argument milan and flag --remote-context exclude each other: leave one of them out"},
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

// TestAGrantedIdentityStays: a new token does not delete an Identity with a credential, even if the credential has expired or the provider does not accept it.
// Its deletion would withdraw what this cluster uses of the provider, remote namespaces included. An expired credential is replaced in place.
func TestAGrantedIdentityStays(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	enrolled := w.in(t, w.snapshot(), lawIntroduction, nil).left
	rome := w.clusters["rome"].client
	key := client.ObjectKey{Namespace: api.TenantNamespace("milan"), Name: peering.ControlPlaneIdentityName("milan")}
	read := func() *authv1beta1.Identity {
		t.Helper()
		identity := &authv1beta1.Identity{}
		if err := rome.Get(context.Background(), key, identity); err != nil {
			t.Fatal(err)
		}
		return identity
	}
	rejected := func(message string) func() {
		return func() {
			foreign := &corev1beta1.ForeignCluster{}
			if err := rome.Get(context.Background(), client.ObjectKey{Name: "milan"}, foreign); err != nil {
				t.Fatal(err)
			}
			foreign.Status.Conditions = []corev1beta1.Condition{{Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusError, Message: message}}
			if err := rome.Status().Update(context.Background(), foreign); err != nil {
				t.Fatal(err)
			}
		}
	}
	token := func(validity time.Duration) func() {
		return func() {
			identity := read()
			issued := time.Now().Add(-time.Hour)
			identity.Spec.AuthParams = authv1beta1.AuthParams{Token: &authv1beta1.SealedToken{
				Sealed: []byte("sealed"), IssuedAt: metav1.NewTime(issued), ExpiresAt: metav1.NewTime(issued.Add(validity)),
			}}
			if err := rome.Update(context.Background(), identity); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, prepare := range map[string]func(){
		"accepted":      func() {},
		"not reached":   rejected("dial tcp 192.0.2.2:6443: i/o timeout"),
		"not accepted":  rejected("requesting https://milan/readyz: 401 Unauthorized"),
		"expired token": token(30 * time.Minute),
	} {
		w.begin(enrolled)
		before := read().UID
		ran := w.in(t, enrolled, lawIntroduction, prepare)
		w.begin(ran.left)
		now := read()
		if now.UID != before { // the link stays as it was prepared, so the command may fail later
			t.Errorf("%s: another Identity: %s", name, ran.said)
		}
		if replaced := strings.Contains(ran.out+ran.said, "has admitted this cluster again: the token is replaced"); replaced != (name == "expired token") {
			t.Errorf("%s: replaced: %t: %s%s", name, replaced, ran.out, ran.said)
		}
		if name == "expired token" && (ran.code != 0 || now.Spec.AuthParams.Token != nil || now.Annotations[peering.AnnotationReenroll] != "") {
			t.Errorf("%s: code %d, %+v: %s", name, ran.code, now.Spec.AuthParams, ran.said)
		}
	}
}
