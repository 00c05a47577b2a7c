package cli

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"

	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/workload"
)

// TestTokensGoToTheConfiguredServerOnly: a pod redirects the request for its metrics, through the API server, to a server of an attacker. liqoctl sends
// nothing there: neither a request nor the token of the administrator.
func TestTokensGoToTheConfiguredServerOnly(t *testing.T) {
	var mu sync.Mutex
	var received []string
	attacker := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		received = append(received, fmt.Sprintf("%s %s, Authorization %q", r.Method, r.URL, r.Header.Get("Authorization")))
	}))
	defer attacker.Close()
	paths := make(chan string, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths <- r.URL.Path
		http.Redirect(w, r, attacker.URL+"/loot", http.StatusFound)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: c}}],
clusters: [{name: c, cluster: {server: "%s", certificate-authority-data: %s}}], users: [{name: c, user: {token: administrator}}]}`, server.URL,
		base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))), 0o600); err != nil {
		t.Fatal(err)
	}
	app := session.New(genericiooptions.NewTestIOStreamsDiscard())
	*app.Kubeconfig.KubeConfig = kubeconfig
	c, err := app.Local()
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := workload.ReadAll(t.Context(), clients.CoreV1().Pods("team").ProxyGet("http", "web", "80", "/metrics", nil), 1<<20)
	at, problem := url.Parse(server.URL)
	if problem != nil {
		t.Fatal(problem)
	}
	if got := <-paths; !strings.HasSuffix(got, "/proxy/metrics") {
		t.Errorf("the API server received %s", got)
	}
	if err == nil || !strings.Contains(err.Error(), at.Host) || !strings.Contains(err.Error(), "302") {
		t.Errorf("metrics %q, error %v: want one that names the host and the status", metrics, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(received) > 0 {
		t.Errorf("the attacker received:\n%s", strings.Join(slices.Sorted(slices.Values(received)), "\n"))
	}
}
