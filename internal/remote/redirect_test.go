package remote

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// TestRedirectsOfProvidersAreRefused: the API server of a provider redirects the requests of this cluster to an internal service of this cluster. The
// service receives nothing, whatever the status and the method, and the provider does not count as up.
func TestRedirectsOfProvidersAreRefused(t *testing.T) {
	var mu sync.Mutex
	var received []string
	internal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		received = append(received, fmt.Sprintf("%s %s, Authorization %q: %s", r.Method, r.URL, r.Header.Get("Authorization"), body))
	}))
	defer internal.Close()
	status := http.StatusTemporaryRedirect
	provider := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, internal.URL+"/v1/acl/bootstrap", status)
	}))
	defer provider.Close()
	identity, err := NewIdentity(fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "%s", certificate-authority-data: %s}}], users: [{name: a, user: {token: ours}}]}`, provider.URL,
		base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: provider.Certificate().Raw}))))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := identity.Config()
	if err != nil {
		t.Fatal(err)
	}
	health, err := NewHealth(cfg, HealthOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := identity.Transport(streaming)
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	far, err := client.New(cfg, client.Options{Scheme: kube.NewScheme(), Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	secret := func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "db"}, Data: map[string][]byte{"password": []byte("x")}}
	}
	at, err := url.Parse(provider.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, status = range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		for name, request := range map[string]func() error{
			"health":  func() error { return health.check(t.Context()) },
			"version": func() error { _, err := Version(t.Context(), cfg); return err },
			"GET":     func() error { return far.Get(t.Context(), client.ObjectKeyFromObject(secret()), secret()) },
			"POST":    func() error { return far.Create(t.Context(), secret()) },
			"DELETE":  func() error { return far.Delete(t.Context(), secret()) },
			"PATCH": func() error {
				return far.Patch(t.Context(), secret(), client.RawPatch("application/merge-patch+json", []byte(`{"a":1}`)))
			},
			"stream": func() error {
				resp, err := (&http.Client{Transport: stream}).Get(provider.URL + "/api/v1/namespaces/shop-rome/pods/web/log")
				if err == nil {
					_ = resp.Body.Close()
				}
				return err
			},
		} {
			err := request()
			if err == nil || !strings.Contains(err.Error(), at.Host+" responded with a redirect") || !strings.Contains(err.Error(), http.StatusText(status)) {
				t.Errorf("%s, status %d: the error is %v; want one that names the host and the status", name, status, err)
			}
		}
	}
	if len(received) > 0 {
		t.Errorf("the internal service received:\n%s", strings.Join(received, "\n"))
	}
}

// TestOtherResponsesPass: only redirects are errors, and the transport below is still found.
func TestOtherResponsesPass(t *testing.T) {
	status := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	cfg := &rest.Config{Host: server.URL}
	RefuseRedirects(cfg)
	transport, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, status = range []int{http.StatusOK, http.StatusNoContent, http.StatusNotModified, http.StatusNotFound, http.StatusBadGateway} {
		resp, err := transport.Get(server.URL)
		if err != nil {
			t.Errorf("status %d: %v", status, err)
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("status %d arrives as %d", status, resp.StatusCode)
		}
	}
}
