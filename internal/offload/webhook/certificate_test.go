package webhook

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"testing"
	"time"
)

const host = "liqo-controller-manager-webhook.liqo.svc"

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func made(t *testing.T, before []byte, now time.Time) material {
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
		m    material
		host string
		now  time.Time
	}{
		"another host":   {m, "liqo-controller-manager-webhook.other.svc", start},
		"expired":        {m, host, start.Add(lifetime + time.Second)},
		"another CA":     {material{ca: made(t, nil, start).ca, certificate: m.certificate, key: m.key}, host, start},
		"another key":    {material{ca: m.ca, certificate: m.certificate, key: made(t, nil, start).key}, host, start},
		"no CA":          {material{certificate: m.certificate, key: m.key}, host, start},
		"nothing":        {material{}, host, start},
		"no certificate": {material{ca: m.ca, key: m.key, certificate: []byte("text")}, host, start},
	} {
		if _, _, err := c.m.parse(c.host, c.now); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, _, err := m.parse(host, start.Add(-skew)); err != nil {
		t.Errorf("not accepted by a clock that is behind: %v", err)
	}
}

// TestBundleKeepsEarlierCAs: a replica that still serves the old certificate is trusted until it expires, and no longer.
func TestBundleKeepsEarlierCAs(t *testing.T) {
	first := made(t, nil, start)
	second := made(t, first.ca, start.Add(lifetime-renewBefore))
	old := material{ca: second.ca, certificate: first.certificate, key: first.key}
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

func TestUnexpiredIgnoresOtherPEMBlocks(t *testing.T) {
	bundle := append(encode("CERTIFICATE", []byte("nonsense")), made(t, nil, start).ca...)
	if n := count(t, unexpired(append([]byte("text\n"), bundle...), start)); n != 1 {
		t.Errorf("%d certificates kept, want 1", n)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("no entropy") }

func TestSerialNumberNeedsRandomness(t *testing.T) {
	if _, err := serialNumber(broken{}); err == nil {
		t.Error("a serial number without randomness")
	}
	if n, err := serialNumber(io.LimitReader(rand.Reader, 16)); err != nil || n.Sign() < 0 || n.BitLen() > 127 {
		t.Errorf("%v %v", n, err)
	}
}
