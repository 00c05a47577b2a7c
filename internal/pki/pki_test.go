package pki_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"slices"
	"testing"
	"time"

	"liqo.io/liqo/internal/pki"
)

const (
	host     = "webhook.liqo.svc"
	lifetime = 90 * time.Minute
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func server(t *testing.T, ca *pki.Pair, now time.Time) *pki.Pair {
	t.Helper()
	pair, err := pki.NewServer(rand.Reader, &x509.Certificate{Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}}, now, lifetime, ca)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func authority(t *testing.T, now time.Time) *pki.Pair {
	t.Helper()
	ca, err := pki.NewCA(rand.Reader, "ca", now, lifetime)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// TestServer: clients that trust the CA, or the certificate itself if it has none, accept the certificate for its host until it ends, and nothing
// else.
func TestServer(t *testing.T) {
	ca := authority(t, start)
	signed, own := server(t, ca, start), server(t, nil, start)
	for name, row := range map[string]struct {
		pair  *pki.Pair
		trust []byte
		host  string
		now   time.Time
		want  bool
	}{
		"signed":                     {signed, ca.Certificate, host, start, true},
		"self-signed":                {own, own.Certificate, host, start, true},
		"by a clock that is behind":  {signed, ca.Certificate, host, start.Add(-pki.Skew), true},
		"by one that is far behind":  {signed, ca.Certificate, host, start.Add(-pki.Skew - time.Second), false},
		"at the end":                 {signed, ca.Certificate, host, start.Add(lifetime + time.Second), false},
		"for another host":           {signed, ca.Certificate, "other.svc", start, false},
		"signed by another CA":       {signed, authority(t, start).Certificate, host, start, false},
		"self-signed, of another":    {own, server(t, nil, start).Certificate, host, start, false},
		"a server's is no authority": {server(t, own, start), own.Certificate, host, start, false},
	} {
		pair, err := tls.X509KeyPair(row.pair.Certificate, row.pair.Key)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(row.trust) {
			t.Fatalf("%s: nothing to trust", name)
		}
		_, err = pair.Leaf.Verify(x509.VerifyOptions{DNSName: row.host, Roots: roots, CurrentTime: row.now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if (err == nil) != row.want {
			t.Errorf("%s: %v", name, err)
		}
		if serial := pair.Leaf.SerialNumber; serial.Sign() <= 0 || serial.BitLen() > 127 {
			t.Errorf("%s: serial number %s", name, serial)
		}
	}
}

// TestReading: of several certificates the first counts, and what is no certificate is refused. An expired one leaves a bundle.
func TestReading(t *testing.T) {
	first, later := authority(t, start), authority(t, start.Add(time.Hour))
	nonsense := pem.EncodeToMemory(&pem.Block{Type: pki.TypeCertificate, Bytes: []byte("nonsense")})
	bundle := slices.Concat([]byte("text\n"), first.Certificate, later.Certificate)
	got, err := pki.First(bundle)
	if err != nil || !got.NotAfter.Equal(start.Add(lifetime)) {
		t.Errorf("%v, %v", got, err)
	}
	for _, data := range [][]byte{nil, []byte("text"), first.Key, nonsense} {
		if got, err := pki.First(data); err == nil {
			t.Errorf("%q is %v", data, got.Subject)
		}
	}
	for now, want := range map[time.Time][]byte{
		start: slices.Concat(first.Certificate, later.Certificate), start.Add(lifetime): later.Certificate, start.Add(time.Hour + lifetime): nil,
	} {
		if got := pki.Unexpired(append(nonsense, bundle...), now); string(got) != string(want) {
			t.Errorf("at %s: %s", now, got)
		}
	}
}

func TestRenewAt(t *testing.T) {
	if got := pki.RenewAt(start, start.Add(lifetime)); !got.Equal(start.Add(time.Hour)) {
		t.Error(got)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("no entropy") }

func TestCertificatesNeedRandomness(t *testing.T) {
	if _, err := pki.NewCA(broken{}, "ca", start, lifetime); err == nil {
		t.Error("a CA without randomness")
	}
}
