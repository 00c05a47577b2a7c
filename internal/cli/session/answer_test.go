package session

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
)

// TestResponsesOfRemoteClustersAreLimited: the API server of a remote cluster sends a response without end. liqoctl stops reading, and the error names the reason. A
// response of the user's own cluster is not limited, because large clusters have large lists.
func TestResponsesOfRemoteClustersAreLimited(t *testing.T) {
	const sends = foreignBytes + 32<<20
	var sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		part := []byte(strings.Repeat(" ", 1<<20))
		for left := sends; left > 0; left -= len(part) {
			n, err := w.Write(part)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
		fmt.Fprint(w, `{"major": "1"}`)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],
clusters: [{name: c, cluster: {server: "%s"}}]}`, server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, scope := range []string{"remote", "local"} {
		flags := ConnectionFlags()
		*flags.KubeConfig = kubeconfig
		c, err := New(genericiooptions.NewTestIOStreamsDiscard()).Connect(flags, scope)
		if err != nil {
			t.Fatal(err)
		}
		clients, err := kubernetes.NewForConfig(c.Config)
		if err != nil {
			t.Fatal(err)
		}
		sent.Store(0)
		err = clients.Discovery().RESTClient().Get().AbsPath("/version").Do(t.Context()).Error()
		if refused := err != nil && strings.Contains(err.Error(), "too large"); refused != (scope == "remote") {
			t.Errorf("%s cluster: after %d MiB: %v", scope, sent.Load()>>20, err)
		}
	}
}
