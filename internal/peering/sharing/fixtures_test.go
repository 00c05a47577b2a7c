package sharing

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/peering"
)

// then is a fixed moment.
var then = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// holder is a cluster's key pair.
type holder struct {
	key    crypto.Signer
	public []byte
}

func newHolder(t testing.TB) holder {
	t.Helper()
	private, public, err := peering.NewKey(peering.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := peering.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return holder{key: key, public: public}
}

// request makes the PEM of any certificate request, also of those that NewRequest never makes.
func (h holder) request(t testing.TB, template *x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, h.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func (h holder) requestFor(t testing.TB, cn string, o ...string) []byte {
	t.Helper()
	return h.request(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: cn, Organization: o}})
}

func at(offset time.Duration) metav1.Time { return metav1.NewTime(then.Add(offset)) }

// refuses checks that err is there or not.
func refuses(t *testing.T, err error, want bool) {
	t.Helper()
	if (err != nil) != want {
		t.Errorf("refused: %v, want refused: %t", err, want)
	}
}
