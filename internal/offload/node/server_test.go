package node_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload/node"
)

// onePod is a node with the pod demo/web, whose namespace is called demo-rome in the provider.
type onePod struct{}

func (onePod) RemoteNamespace(local string) (string, bool) { return "demo-rome", local == "demo" }

func (onePod) Local(string) []client.Object {
	return []client.Object{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}}}
}

// What the API server asks a kubelet for has to arrive at the provider's API server as what that one calls it.
func TestRequestsArriveRenamed(t *testing.T) {
	type request struct {
		Method, Path string
		Query        url.Values
		Identity     string
	}
	var got request
	provider := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = request{r.Method, r.URL.Path, r.URL.Query(), r.Header.Get("Impersonate-User") + r.Header.Get("Authorization")}
		_, _ = io.WriteString(w, "said")
	}))
	defer provider.Close()
	const pod = "/api/v1/namespaces/demo-rome/pods/web/"
	for _, base := range []string{"", "/prefix"} {
		remote := &rest.Config{Host: provider.URL + base, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
		server, err := node.NewServer(remote, onePod{}, "Pod", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			method, target string
			want           request
		}{
			{"GET", "/containerLogs/demo/web/main?follow=true&tailLines=5",
				request{"GET", pod + "log", url.Values{"container": {"main"}, "follow": {"true"}, "tailLines": {"5"}}, ""}},
			{"POST", "/exec/demo/web/main?input=1&output=1&error=0&tty=0&command=sh&command=-c",
				request{"POST", pod + "exec", url.Values{"container": {"main"}, "stdin": {"true"}, "stdout": {"true"}, "command": {"sh", "-c"}}, ""}},
			{"POST", "/attach/demo/web/main?output=1&tty=1",
				request{"POST", pod + "attach", url.Values{"container": {"main"}, "stdout": {"true"}, "tty": {"true"}}, ""}},
			{"GET", "/portForward/demo/web?port=80&port=443",
				request{"GET", pod + "portforward", url.Values{"ports": {"80", "443"}}, ""}},
		} {
			r := httptest.NewRequest(test.method, test.target, nil)
			r.Header.Set("Authorization", "Bearer of rome")
			r.Header.Set("Impersonate-User", "somebody")
			w := httptest.NewRecorder()
			server.Handler().ServeHTTP(w, r)
			test.want.Path = base + test.want.Path
			if w.Code != http.StatusOK || w.Body.String() != "said" {
				t.Errorf("%s %s: %d %s", test.method, test.target, w.Code, w.Body)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s %s (- want, + got):\n%s", test.method, test.target, diff)
			}
		}
		for _, target := range []string{"/containerLogs/demo/other/main", "/containerLogs/elsewhere/web/main"} {
			w := httptest.NewRecorder()
			if server.Handler().ServeHTTP(w, httptest.NewRequest("GET", target, nil)); w.Code != http.StatusNotFound {
				t.Errorf("%s: %d, want 404: it is not a pod of this node", target, w.Code)
			}
		}
	}
}
