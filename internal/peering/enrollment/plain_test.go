package enrollment

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// TestPlain: behind a proxy that ends TLS, the service answers HTTP.
func TestPlain(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- New(Options{ClusterID: "milan", Namespace: "liqo", Client: c, Reader: c, Log: logr.Discard(), Plain: true}).Serve(ctx, listener)
	}()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+listener.Addr().String()+peering.EnrollmentNoncePath, strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d, want %d", answer.StatusCode, http.StatusBadRequest)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
