package object

import (
	"bytes"
	"encoding/pem"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering/invite"
)

// TestPinOfAProxy: a command for an authentication service behind a proxy names the key of the proxy's certificate.
func TestPinOfAProxy(t *testing.T) {
	proxy := httptest.NewTLSServer(nil)
	defer proxy.Close()
	certificate := proxy.Certificate()
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
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
		"proxy.pem": {want: invite.PinOf(certificate)},
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
