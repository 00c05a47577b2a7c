package peering

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

func TestKubeconfig(t *testing.T) {
	proxy := "http://10.70.0.2:8118"
	identity := &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Name: "controlplane-milan"},
		Spec: authv1beta1.IdentitySpec{ClusterID: "milan", Namespace: "liqo-tenant-rome", AuthParams: authv1beta1.AuthParams{
			CA: []byte("CA"), SignedCRT: []byte("certificate"), APIServer: "https://192.0.2.1:6443", ProxyURL: &proxy,
		}},
	}
	want := `apiVersion: v1
kind: Config
clusters:
- name: "milan"
  cluster:
    server: "https://192.0.2.1:6443"
    certificate-authority-data: "Q0E="
    proxy-url: "http://10.70.0.2:8118"
users:
- name: "controlplane-milan"
  user:
    client-certificate-data: "Y2VydGlmaWNhdGU="
    client-key-data: "a2V5"
contexts:
- name: "milan"
  context:
    cluster: "milan"
    user: "controlplane-milan"
    namespace: "liqo-tenant-rome"
current-context: "milan"
`
	got, err := Kubeconfig(identity, []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestKubeconfigRefuses: the kubeconfig that a provider sends can contain nothing but the address of an API server, because programs execute what is
// in a kubeconfig.
func TestKubeconfigRefuses(t *testing.T) {
	good := authv1beta1.AuthParams{SignedCRT: []byte("c"), APIServer: "https://milan:6443"}
	text := func(s string) *string { return &s }
	for name, change := range map[string]func(*authv1beta1.AuthParams){
		"no address":              func(p *authv1beta1.AuthParams) { p.APIServer = "" },
		"without TLS":             func(p *authv1beta1.AuthParams) { p.APIServer = "http://milan:6443" },
		"no host":                 func(p *authv1beta1.AuthParams) { p.APIServer = "https://" },
		"a file":                  func(p *authv1beta1.AuthParams) { p.ProxyURL = text("file:///etc/passwd") },
		"a metadata service":      func(p *authv1beta1.AuthParams) { p.ProxyURL = text("http://169.254.169.254:80") },
		"a link-local address":    func(p *authv1beta1.AuthParams) { p.ProxyURL = text("socks5://[fe80::1]:1080") },
		"with a zone":             func(p *authv1beta1.AuthParams) { p.ProxyURL = text("http://[fe80::1%25eth0]:8118") },
		"a loopback address":      func(p *authv1beta1.AuthParams) { p.ProxyURL = text("http://127.0.0.1:8118") },
		"the same in IPv6":        func(p *authv1beta1.AuthParams) { p.ProxyURL = text("http://[::ffff:127.0.0.1]:8118") },
		"an address of no host":   func(p *authv1beta1.AuthParams) { p.ProxyURL = text("http://0.0.0.0:8118") },
		"no certificate":          func(p *authv1beta1.AuthParams) { p.SignedCRT = nil },
		"an empty key of a cloud": func(p *authv1beta1.AuthParams) { p.SignedCRT, p.AwsConfig = nil, &authv1beta1.AwsConfig{} },
		"two credentials":         func(p *authv1beta1.AuthParams) { p.AwsConfig = awsOfMilan() },
	} {
		t.Run(name, func(t *testing.T) {
			params := good.DeepCopy()
			change(params)
			refuses(t, CheckAuthParams(params), true)
		})
	}
	identity := &authv1beta1.Identity{Spec: authv1beta1.IdentitySpec{ClusterID: "milan", Namespace: "x\"\nusers: []\nfoo: \"", AuthParams: good}}
	got, err := Kubeconfig(identity, nil)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(got), "\nusers: []") {
		t.Errorf("a value became a line of its own:\n%s", got)
	}
}
