package session

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
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

// zeros is a transport whose responses never end.
type zeros struct{}

func (zeros) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(zeros{})}, nil
}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestListsOfRemoteClustersAreLimited: the API server of a remote cluster announces one more page without end, each within the limit of a response. liqoctl stops
// reading, and the error names the list and the limit. A list of the user's own cluster is not limited.
func TestListsOfRemoteClustersAreLimited(t *testing.T) {
	for _, foreign := range []bool{true, false} {
		connection, err := rest.HTTPWrappersForConfig(bounding(&rest.Config{}, foreign), zeros{})
		if err != nil {
			t.Fatal(err)
		}
		var read int64
		for read <= 2*foreignLists && err == nil {
			var response *http.Response
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://peer.example/api/v1/pods?limit=500&continue=more", nil)
			if response, err = connection.RoundTrip(request); err != nil {
				t.Fatal(err)
			}
			var n int64
			n, err = io.CopyN(io.Discard, response.Body, foreignBytes)
			read += n
			response.Body.Close()
		}
		if !foreign {
			if err != nil {
				t.Errorf("the user's own cluster: after %d MiB: %v", read>>20, err)
			}
			continue
		}
		if err == nil || read > foreignLists || !strings.Contains(err.Error(), "the lists of the other cluster are too large: more than 2Gi together; the last one was /api/v1/pods") {
			t.Errorf("after %d MiB: %v", read>>20, err)
		}
	}
}
