package webhook

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"liqo.io/liqo/internal/pki"
)

const host = "liqo-controller-manager-webhook.liqo.svc"

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func made(t *testing.T, before []byte, now time.Time) certBundle {
	t.Helper()
	m, err := generate(host, before, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGeneratedCertificateServes(t *testing.T) {
	m := made(t, nil, start)
	pair, renewal, err := m.parse(host, start)
	if err != nil {
		t.Fatal(err)
	}
	if renewal != start.Add(lifetime-renewBefore) || pair.Leaf.NotAfter != start.Add(lifetime) {
		t.Errorf("renewal %s, end %s", renewal, pair.Leaf.NotAfter)
	}
	for name, c := range map[string]struct {
		m    certBundle
		host string
		now  time.Time
	}{
		"another host":   {m, "liqo-controller-manager-webhook.other.svc", start},
		"expired":        {m, host, start.Add(lifetime + time.Second)},
		"another CA":     {certBundle{ca: made(t, nil, start).ca, certificate: m.certificate, key: m.key}, host, start},
		"another key":    {certBundle{ca: m.ca, certificate: m.certificate, key: made(t, nil, start).key}, host, start},
		"no CA":          {certBundle{certificate: m.certificate, key: m.key}, host, start},
		"nothing":        {certBundle{}, host, start},
		"no certificate": {certBundle{ca: m.ca, key: m.key, certificate: []byte("text")}, host, start},
	} {
		if _, _, err := c.m.parse(c.host, c.now); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, _, err := m.parse(host, start.Add(-pki.Skew)); err != nil {
		t.Errorf("not accepted by a clock that is behind: %v", err)
	}
}

// TestBundleKeepsEarlierCAs: a replica that still serves the old certificate is trusted until it expires, and no longer.
func TestBundleKeepsEarlierCAs(t *testing.T) {
	first := made(t, nil, start)
	second := made(t, first.ca, start.Add(lifetime-renewBefore))
	old := certBundle{ca: second.ca, certificate: first.certificate, key: first.key}
	if _, _, err := old.parse(host, start.Add(lifetime-renewBefore)); err != nil {
		t.Errorf("the old certificate is not trusted with the new bundle: %v", err)
	}
	third := made(t, second.ca, start.Add(lifetime+time.Hour))
	if n := count(t, third.ca); n != 2 {
		t.Errorf("%d CAs in the bundle, want 2: the first has ended", n)
	}
}

func count(t *testing.T, bundle []byte) int {
	t.Helper()
	for n := 0; ; n++ {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return n
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Fatal(err)
		}
	}
}
