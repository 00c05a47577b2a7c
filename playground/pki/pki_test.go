package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"liqo.io/playground/component"
)

func TestCertificatesHoldTogether(t *testing.T) {
	dir := t.TempDir()
	c := component.Cluster{
		Name: "rome", Index: 1, Nodes: 2, ForwardPort: 16001,
		PodCIDR: netip.MustParsePrefix("10.244.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
	}
	if err := Write(dir, c.Certificates(), c.Kubeconfigs()); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(read("ca.crt"))
	pair, err := tls.X509KeyPair(read("apiserver.crt"), read("apiserver.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kubernetes.default.svc", "127.0.0.1", "10.96.0.1", "172.30.1.1", "rome-1"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name}); err != nil {
			t.Errorf("the API server at %s: %v", name, err)
		}
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "172.30.2.1"}); err == nil {
		t.Error("the certificate holds for another cluster's address")
	}
	admin, err := tls.X509KeyPair(read("admin.crt"), read("admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("an administrator's certificate can be a server's")
	}
	front, err := tls.X509KeyPair(read("front-proxy-client.crt"), read("front-proxy-client.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := front.Leaf.Verify(x509.VerifyOptions{Roots: pool}); err == nil {
		t.Error("the front proxy's certificate is signed by the cluster's authority")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
}

func TestWriteKeepsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	want := []component.Certificate{{Name: "ca", CommonName: "ca"}, {Name: "a", CommonName: "a", Authority: "ca"}}
	if err := Write(dir, want[:1], nil); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, want, nil); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil || string(before) != string(after) {
		t.Errorf("the authority was recreated: %v", err)
	}
}
