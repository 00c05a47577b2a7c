package webhook

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"time"
)

const (
	// lifetime of CA and serving certificate alike: they are always made together, so the key of the CA is kept nowhere.
	lifetime = 365 * 24 * time.Hour
	// renewBefore is how long before their end they are replaced: a third of their life, time enough to notice that it fails.
	renewBefore = lifetime / 3
	// skew is how far the clocks of two machines may be apart.
	skew = 5 * time.Minute
)

// Keys of the Secret.
const (
	keyCA          = "ca"
	keyCertificate = "tls.crt"
	keyPrivate     = "tls.key"
)

// material is what the Secret holds, all in PEM.
type material struct {
	// ca is what clients trust: the CA of certificate first, then earlier ones that have not expired, for replicas that still serve with
	// a certificate of theirs.
	ca []byte
	// certificate and key are served.
	certificate, key []byte
}

func materialOf(data map[string][]byte) material {
	return material{ca: data[keyCA], certificate: data[keyCertificate], key: data[keyPrivate]}
}

func (m material) data() map[string][]byte {
	return map[string][]byte{keyCA: m.ca, keyCertificate: m.certificate, keyPrivate: m.key}
}

// parse checks the material and returns it as TLS serves it, and when it has to be replaced. It fails when the certificate is not for that
// host, not signed by the CA, or no longer valid.
func (m material) parse(host string, now time.Time) (*tls.Certificate, time.Time, error) {
	pair, err := tls.X509KeyPair(m.certificate, m.key)
	if err != nil {
		return nil, time.Time{}, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(m.ca) {
		return nil, time.Time{}, errors.New("no CA in it")
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, time.Time{}, err
	}
	if _, err := leaf.Verify(x509.VerifyOptions{
		DNSName: host, Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}); err != nil {
		return nil, time.Time{}, err
	}
	pair.Leaf = leaf
	return &pair, leaf.NotAfter.Add(-renewBefore), nil
}

// generate makes a CA and a certificate for the host signed by it. The CAs of before that are still valid stay trusted.
func generate(host string, before []byte, now time.Time, random io.Reader) (material, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return material{}, fmt.Errorf("making the key of the webhook CA: %w", err)
	}
	serial, err := serialNumber(random)
	if err != nil {
		return material{}, err
	}
	ca := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "liqo-webhook-ca"},
		NotBefore: now.Add(-skew), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	caDER, err := x509.CreateCertificate(random, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return material{}, fmt.Errorf("making the webhook CA: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return material{}, fmt.Errorf("making the key of the webhook certificate: %w", err)
	}
	if serial, err = serialNumber(random); err != nil {
		return material{}, err
	}
	leaf := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: now.Add(-skew), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, err := x509.CreateCertificate(random, leaf, ca, key.Public(), caKey)
	if err != nil {
		return material{}, fmt.Errorf("making the webhook certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return material{}, fmt.Errorf("encoding the key of the webhook certificate: %w", err)
	}
	return material{
		ca:          append(encode("CERTIFICATE", caDER), unexpired(before, now)...),
		certificate: encode("CERTIFICATE", leafDER),
		key:         encode("PRIVATE KEY", keyDER),
	}, nil
}

// unexpired keeps of a bundle the certificates that are still valid.
func unexpired(bundle []byte, now time.Time) []byte {
	var kept bytes.Buffer
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return kept.Bytes()
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(c.NotAfter) {
			kept.Write(encode("CERTIFICATE", block.Bytes))
		}
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// serialNumber has 127 random bits: RFC 5280 allows 20 octets.
func serialNumber(random io.Reader) (*big.Int, error) {
	raw := make([]byte, 16)
	if _, err := io.ReadFull(random, raw); err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	raw[0] &= 0x7f
	return new(big.Int).SetBytes(raw), nil
}
