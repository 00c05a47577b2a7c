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
	// lifetime is the validity of CA and serving certificate. Both are always generated together, so the key of the CA is never stored.
	lifetime = 365 * 24 * time.Hour
	// renewBefore is how long before their expiry they are replaced. A third of the lifetime leaves enough time to notice failures.
	renewBefore = lifetime / 3
	// skew is the assumed maximum clock difference between two machines.
	skew = 5 * time.Minute
)

// Keys of the Secret.
const (
	keyCA          = "ca"
	keyCertificate = "tls.crt"
	keyPrivate     = "tls.key"
)

// material is the content of the Secret, all in PEM.
type material struct {
	// ca is the CA bundle for clients. The CA of certificate comes first. Earlier CAs that have not expired follow, for replicas that still serve
	// with certificates of those.
	ca []byte
	// certificate and key are the serving certificate and its private key.
	certificate, key []byte
}

func materialOf(data map[string][]byte) material {
	return material{ca: data[keyCA], certificate: data[keyCertificate], key: data[keyPrivate]}
}

func (m material) data() map[string][]byte {
	return map[string][]byte{keyCA: m.ca, keyCertificate: m.certificate, keyPrivate: m.key}
}

// parse validates the material. It returns the certificate for use by TLS and the time of its renewal. It returns an error if the certificate is not
// for that host, not signed by the CA, or not valid at now.
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

// generate creates a CA and a certificate for the host, signed by this CA. The CAs in before that are still valid stay trusted.
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

// unexpired returns the certificates of a bundle that have not expired.
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

// serialNumber returns a serial number with 127 random bits; RFC 5280 allows up to 20 octets.
func serialNumber(random io.Reader) (*big.Int, error) {
	raw := make([]byte, 16)
	if _, err := io.ReadFull(random, raw); err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	raw[0] &= 0x7f
	return new(big.Int).SetBytes(raw), nil
}
