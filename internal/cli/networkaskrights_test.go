package cli

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"liqo.io/liqo/internal/peering"
)

// clientCertificate returns a certificate of a user with this name, in PEM.
func clientCertificate(t *testing.T, user string) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: user}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestInBandNeedsAnAdministrator: a peering user never gets the permissions for --in-band, so the command ends before it changes anything. It names the
// permissions and both alternatives.
func TestInBandNeedsAnAdministrator(t *testing.T) {
	for name, row := range map[string]struct {
		user   string
		auth   authFlags
		refuse bool
	}{
		"a peering user":                        {peering.PeeringUserPrefix + "rome-00", authFlags{}, false},
		"a peering user, in-band":               {peering.PeeringUserPrefix + "rome-00", authFlags{inBand: true}, true},
		"a peering user, in-band and an invite": {peering.PeeringUserPrefix + "rome-00", authFlags{inBand: true, invite: true}, true},
		"an administrator, in-band":             {"ada", authFlags{inBand: true, invite: true}, false},
	} {
		p := &pair{local: fakeCluster("rome"), remote: fakeCluster("milan")}
		p.remote.namespace = "liqo"
		p.remote.config = &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: clientCertificate(t, row.user)}}
		err := p.checkRights(&peerOptions{auth: row.auth})
		if (err != nil) != row.refuse {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range []string{
			"peering user", "create gateways and Secrets in the tenant namespace", "in namespace liqo", "an administrator of milan", "leave --in-band out",
		} {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
		if row.refuse { // it is the first thing that the command does: the fake clusters hold nothing, and p.peer would fail otherwise with another error
			if got := p.peer(t.Context(), &peerOptions{auth: row.auth}, nil); got == nil || got.Error() != err.Error() {
				t.Errorf("%s: the command ends with %v, want %v", name, got, err)
			}
		}
	}
}
