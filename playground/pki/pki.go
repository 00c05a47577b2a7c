// Package pki creates the keys, certificates and kubeconfigs of a cluster. It keeps existing keys and certificates, so that an interrupted
// creation of a cluster can resume. It always rewrites kubeconfigs.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"liqo.io/playground/component"
)

// lifetime is the validity period of certificates. Ten years exceed the life of any playground cluster.
const lifetime = 10 * 365 * 24 * time.Hour

// Write creates all missing keys and certificates in the folder dir, and writes the kubeconfigs.
func Write(dir string, certificates []component.Certificate, kubeconfigs []component.Kubeconfig) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating folder %s: %w", dir, err)
	}
	for _, c := range certificates {
		if exists(filepath.Join(dir, c.Name+".crt")) {
			continue
		}
		if err := issue(dir, c); err != nil {
			return fmt.Errorf("issuing certificate %s: %w", c.Name, err)
		}
	}
	if !exists(filepath.Join(dir, "sa.pub")) {
		if err := serviceAccountKey(dir); err != nil {
			return fmt.Errorf("creating the service account key: %w", err)
		}
	}
	for _, k := range kubeconfigs {
		if err := kubeconfig(dir, k); err != nil {
			return fmt.Errorf("writing kubeconfig %s: %w", k.Name, err)
		}
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// issue creates a key and a certificate. It writes the key first, so an existing certificate file means that both files are complete.
func issue(dir string, want component.Certificate) error {
	key, err := newKey(filepath.Join(dir, want.Name+".key"))
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: want.CommonName, Organization: want.Organizations},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(lifetime),
		BasicConstraintsValid: true,
	}
	parent, signer := template, crypto.Signer(key)
	if want.Authority == "" {
		template.IsCA = true
		template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign
	} else {
		template.KeyUsage = x509.KeyUsageDigitalSignature
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		if len(want.Hosts) > 0 {
			template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		}
		if parent, signer, err = authority(dir, want.Authority); err != nil {
			return err
		}
	}
	for _, host := range want.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return err
	}
	return place(filepath.Join(dir, want.Name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func newKey(name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, place(name, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func serviceAccountKey(dir string) error {
	key, err := newKey(filepath.Join(dir, "sa.key"))
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return place(filepath.Join(dir, "sa.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func authority(dir, name string) (*x509.Certificate, crypto.Signer, error) {
	certificate, err := block(filepath.Join(dir, name+".crt"))
	if err != nil {
		return nil, nil, err
	}
	key, err := block(filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, nil, err
	}
	parsed, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil, nil, err
	}
	private, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("key of %s cannot sign", name)
	}
	return parsed, signer, nil
}

func block(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	b, _ := pem.Decode(data)
	if b == nil {
		return nil, fmt.Errorf("decoding %s: not PEM", name)
	}
	return b.Bytes, nil
}

func kubeconfig(dir string, k component.Kubeconfig) error {
	var parts [3]string
	for i, name := range []string{"ca.crt", k.Certificate + ".crt", k.Certificate + ".key"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		parts[i] = base64.StdEncoding.EncodeToString(data)
	}
	return place(filepath.Join(dir, k.Name+".kubeconfig"), fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: %[1]s
  cluster:
    server: %[2]s
    certificate-authority-data: %[4]s
users:
- name: "%[3]s"
  user:
    client-certificate-data: %[5]s
    client-key-data: %[6]s
contexts:
- name: %[1]s
  context: {cluster: %[1]s, user: "%[3]s"}
current-context: %[1]s
`, k.Cluster, k.Server, k.User, parts[0], parts[1], parts[2]))
}

// place writes a secret file atomically, readable only by root.
func place(name string, data []byte) error {
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
