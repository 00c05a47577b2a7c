package remote

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"liqo.io/liqo/api"
)

func kubeconfig(t *testing.T, auth *clientcmdapi.AuthInfo) *corev1.Secret {
	t.Helper()
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: "https://192.0.2.1:6443"}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": auth},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "kubeconfig-a",
			Annotations: map[string]string{api.AnnotationRemoteTenantNamespace: "liqo-tenant-rome"},
		},
		Data: map[string][]byte{KubeconfigKey: data},
	}
}

func TestConfig(t *testing.T) {
	cfg, namespace, err := Config(kubeconfig(t, &clientcmdapi.AuthInfo{Token: "t"}))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://192.0.2.1:6443" || cfg.QPS != -1 || namespace != "liqo-tenant-rome" {
		t.Errorf("got host %s, QPS %v, namespace %s", cfg.Host, cfg.QPS, namespace)
	}
	rt, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var found *http.Transport
	for found == nil {
		switch t2 := rt.(type) {
		case *http.Transport:
			found = t2
		case interface{ WrappedRoundTripper() http.RoundTripper }:
			rt = t2.WrappedRoundTripper()
		default:
			t.Fatalf("no HTTP transport below %T", rt)
		}
	}
	if found.HTTP2 == nil || found.HTTP2.SendPingTimeout != readIdle || found.HTTP2.PingTimeout != pingTimeout {
		t.Errorf("the link is not watched: %+v", found.HTTP2)
	}
}

func TestConfigRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ours")
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string]*corev1.Secret{
		"empty":   {},
		"garbage": {Data: map[string][]byte{KubeconfigKey: []byte("{")}},
		"program": kubeconfig(t, &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			Command: "true", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}}),
		"token in a file":       kubeconfig(t, &clientcmdapi.AuthInfo{TokenFile: file}),
		"certificate in a file": kubeconfig(t, &clientcmdapi.AuthInfo{ClientCertificate: file, ClientKeyData: []byte("key")}),
		"key in a file":         kubeconfig(t, &clientcmdapi.AuthInfo{ClientCertificateData: []byte("certificate"), ClientKey: file}),
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := Config(secret); err == nil {
				t.Error("accepted")
			}
		})
	}
}

// TestProxiesOfProvidersAreNoSpecialAddresses: the proxy in the kubeconfig of an Identity, which a provider or an invitation names, is not this machine and no metadata
// service, whether its address is in the URL or what its name resolves to. Nothing is sent to such a proxy.
func TestProxiesOfProvidersAreNoSpecialAddresses(t *testing.T) {
	var received atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received.Add(1) }))
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		proxy.URL:                             "an address that every machine has",
		"http://localhost:" + at.Port():       "an address that every machine has",
		"socks5://localhost:" + at.Port():     "an address that every machine has",
		"http://169.254.169.254:" + at.Port(): "a link-local address",
	} {
		secret := kubeconfig(t, &clientcmdapi.AuthInfo{Token: "t"})
		secret.Data[KubeconfigKey] = bytes.Replace(secret.Data[KubeconfigKey], []byte("server:"), []byte("proxy-url: "+text+"\n    server:"), 1)
		cfg, _, err := Config(secret)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err = Version(ctx, cfg)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if received.Load() > 0 {
		t.Errorf("%d requests were sent to the proxy", received.Load())
	}
}

func TestHealthFollowsTheServer(t *testing.T) {
	var fail, asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if !strings.HasSuffix(r.URL.Path, "/livez") {
			t.Errorf("asked %s", r.URL.Path)
		}
		if fail.Load() != 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	h, err := NewHealth(&rest.Config{Host: server.URL}, HealthOptions{
		Interval: time.Millisecond, RetryInterval: time.Millisecond, Timeout: 10 * time.Second, Failures: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	changed := h.Subscribe()
	if s := h.State(); s.Up || !errors.Is(s.Err, errNoAnswer) {
		t.Errorf("before the first answer: %+v", s)
	}
	done := make(chan error, 1)
	go func() { done <- h.Run(t.Context()) }()
	<-changed
	if !h.State().Up {
		t.Error("answers, but is down")
	}
	asked.Store(0)
	fail.Store(1)
	<-changed
	if s := h.State(); s.Up || s.Err == nil {
		t.Errorf("fails, but is up: %+v", s)
	}
	if asked.Load() < 3 {
		t.Errorf("down after %d answers", asked.Load())
	}
	fail.Store(0)
	<-changed
	if s := h.State(); !s.Up || s.Err != nil {
		t.Errorf("healed, but is down: %+v", s)
	}
}
