package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestRenewedIdentityIsUsed: the virtual kubelet uses a renewed identity without a restart. Only another address of the provider restarts it.
func TestRenewedIdentityIsUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(path+".new", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil { // as kubelet renews a mounted Secret
			t.Fatal(err)
		}
	}
	kubeconfig := func(server, token string) []byte {
		return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: c}}],
clusters: [{name: c, cluster: {server: "%s"}}], users: [{name: c, user: {token: "%s"}}]}`, server, token)
	}
	old, renewed := kubeconfig("https://milan", "old"), kubeconfig("https://milan", "renewed")
	credentials, err := NewIdentity(old)
	if err != nil {
		t.Fatal(err)
	}
	used := make(chan string, 10)
	if _, err := credentials.Transport(func(cfg *rest.Config) (http.RoundTripper, error) {
		used <- cfg.BearerToken
		return http.DefaultTransport, nil
	}); err != nil || <-used != "old" {
		t.Fatal(err)
	}
	write(old)
	ended := make(chan error, 1)
	log := slog.New(slog.DiscardHandler)
	go func() { ended <- Follow(t.Context(), path, old, credentials, log, time.Millisecond) }()
	for _, harmless := range []func(){
		func() {}, func() { write(nil) }, func() { _ = os.Remove(path) }, func() { write(old) }, func() { write([]byte("no kubeconfig")) },
	} {
		harmless()
		select {
		case err := <-ended:
			t.Fatalf("ended with %v although there is no other identity", err)
		case token := <-used:
			t.Fatalf("token %q was taken into use", token)
		case <-time.After(20 * time.Millisecond):
		}
	}
	write(renewed)
	select {
	case err := <-ended:
		t.Fatalf("ended with %v although the identity was renewed only", err)
	case token := <-used:
		if token != "renewed" {
			t.Errorf("token %q was taken into use", token)
		}
	}
	write(kubeconfig("https://turin", "renewed"))
	if err := <-ended; !errors.Is(err, ErrNewAddress) {
		t.Errorf("another address: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Follow(ctx, path, renewed, credentials, log, time.Hour); err != nil {
		t.Errorf("asked to end: %v", err)
	}
}
