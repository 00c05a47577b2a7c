package cli

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// TestPinOfAProxy: a command for an authentication service behind a proxy names the key of the proxy's certificate.
func TestPinOfAProxy(t *testing.T) {
	chain := selfSigned(t, "proxy", time.Unix(1_800_000_000, 0), time.Unix(1_900_000_000, 0))
	block, _ := pem.Decode(chain)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, content := range map[string][]byte{"proxy.pem": chain, "text": []byte("hello")} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for file, test := range map[string]struct {
		want []byte
		err  string
	}{
		"proxy.pem": {want: peering.PinOf(certificate)},
		"text":      {err: "it is not a PEM certificate"},
		"nowhere":   {err: "no such file"},
		"":          {},
	} {
		o := &peerCommandOptions{}
		if file != "" {
			o.certificate = filepath.Join(folder, file)
		}
		got, err := o.pin()
		if !bytes.Equal(got, test.want) || (err == nil) != (test.err == "") || err != nil && (!strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), "--auth-certificate")) {
			t.Errorf("%s: %x, error %v", file, got, err)
		}
	}
}

// TestAPeerCommandNamesTheGateway: flags for another path to the gateway of this cluster are flags of the command that the other administrator runs.
func TestAPeerCommandNamesTheGateway(t *testing.T) {
	for want, d := range map[string]tunnel.Dialed{
		"":                                {},
		" --gw-client-address 100.64.0.7": {ClientAddress: "100.64.0.7"},
		" --gw-client-port 4000":          {ClientPort: 4000},
		" --gw-client-address vpn.example.org --gw-client-port 4000": {ClientAddress: "vpn.example.org", ClientPort: 4000},
	} {
		if got := d.Arguments(); got != want {
			t.Errorf("%+v: %q, want %q", d, got, want)
		}
		parsed := peerOptions{}
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		parsed.network.AddDialed(flags, "", "")
		if err := flags.Parse(strings.Fields(want)); err != nil || parsed.network.Arguments() != want {
			t.Errorf("%q is read as %q, %v", want, parsed.network.Arguments(), err)
		}
	}
}

// TestThePrintedCommandNamesTheGateway: the command that an administrator passes on is one line that the other administrator can run, and contains the flags for
// the path to the gateway.
func TestThePrintedCommandNamesTheGateway(t *testing.T) {
	var out bytes.Buffer
	milan := &session.Cluster{
		ID: "milan", Namespace: "liqo", Console: console.New(&out, io.Discard, false),
		WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}}).Build(),
	}
	o := &peerCommandOptions{
		Dialed: tunnel.Dialed{ClientAddress: "vpn.example.org", ClientPort: 4000}, onlyCommand: true, trusted: true, lifetime: time.Hour,
		url: "https://milan.example.org",
	}
	if err := printPeerCommand(t.Context(), milan, o); err != nil {
		t.Fatal(err)
	}
	command, more, _ := strings.Cut(out.String(), "\n")
	_, flags, ok := strings.Cut(command, "liqoctl peer out-of-band milan --auth-url https://milan.example.org --cluster-id milan --auth-token ")
	if token, network, _ := strings.Cut(flags, " "); !ok || more != "" || token == "" || network != "--gw-client-address vpn.example.org --gw-client-port 4000" {
		t.Errorf("printed %q", out.String())
	}
}
