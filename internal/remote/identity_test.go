package remote

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// authority signs the client certificates of a provider.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{key, certificate}
}

// kubeconfig is one for a server, with a new certificate of the given name.
func (a *authority) kubeconfig(t *testing.T, server *httptest.Server, address, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: c}}],
clusters: [{name: c, cluster: {server: "%s", certificate-authority-data: "%s"}}],
users: [{name: c, user: {client-certificate-data: "%s", client-key-data: "%s"}}]}`,
		address, text("CERTIFICATE", server.Certificate().Raw), text("CERTIFICATE", der), text("PRIVATE KEY", private))
}

// TestStreamsContinueThroughRenewals: a stream that started with one certificate continues through three renewals, over HTTP/2 and HTTP/1.1. Every request
// after a renewal uses the new certificate, even if the previous connection is still open.
func TestStreamsContinueThroughRenewals(t *testing.T) {
	lines := make(chan string)
	provider := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.TLS.PeerCertificates[0].Subject.CommonName
		if r.URL.Path != "/stream" {
			_, _ = fmt.Fprint(w, name)
			return
		}
		for {
			_, _ = fmt.Fprintln(w, name)
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-lines:
			}
		}
	}))
	ca := newAuthority(t)
	pool := x509.NewCertPool()
	pool.AddCert(ca.certificate)
	provider.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	provider.EnableHTTP2 = true
	provider.StartTLS()
	defer provider.Close()

	identity, err := NewIdentity(ca.kubeconfig(t, provider, provider.URL, "one"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := identity.Config()
	if err != nil {
		t.Fatal(err)
	}
	multiplexed, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := identity.Transport(func(cfg *rest.Config) (http.RoundTripper, error) {
		config, err := rest.TLSConfigFor(cfg)
		return &http.Transport{TLSClientConfig: config}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	clients := map[string]*http.Client{"HTTP/2": multiplexed, "HTTP/1.1": {Transport: plain}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	get := func(client *http.Client, path string) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, provider.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer
	}
	read := func(r *bufio.Reader) string {
		t.Helper()
		line, err := r.ReadString('\n')
		if err != nil && line == "" {
			t.Fatalf("the stream ended: %v", err)
		}
		return line
	}
	streams := map[string]*bufio.Reader{}
	for protocol, client := range clients {
		answer := get(client, "/stream")
		if answer.Proto[:6] != protocol[:6] {
			t.Fatalf("the protocol is %s, want %s", answer.Proto, protocol)
		}
		streams[protocol] = bufio.NewReader(answer.Body)
		read(streams[protocol])
	}
	for _, name := range []string{"two", "three", "four"} {
		if replaced, err := identity.Replace(ca.kubeconfig(t, provider, provider.URL, name)); err != nil || !replaced {
			t.Fatalf("replaced %v: %v", replaced, err)
		}
		for protocol, client := range clients {
			if got := read(bufio.NewReader(get(client, "/name").Body)); got != name {
				t.Errorf("%s: a request after the renewal is made as %q, want %q", protocol, got, name)
			}
		}
		for range streams {
			lines <- ""
		}
		for protocol, stream := range streams {
			if got := read(stream); got != "one\n" {
				t.Errorf("%s: the stream says %q", protocol, got)
			}
		}
	}
	// What can't be taken into use changes nothing.
	if replaced, err := identity.Replace(ca.kubeconfig(t, provider, "https://192.0.2.1:6443", "five")); err != nil || replaced {
		t.Errorf("another address: replaced %v, %v", replaced, err)
	}
	if _, err := identity.Replace([]byte("{}")); err == nil {
		t.Error("an empty kubeconfig was taken")
	}
	if got := read(bufio.NewReader(get(multiplexed, "/name").Body)); got != "four" {
		t.Errorf("requests are made as %q, want four", got)
	}
}
