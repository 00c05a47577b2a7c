package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestIdentityIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil { // as kubelet renews a mounted Secret
			t.Fatal(err)
		}
	}
	write("old")
	ended := make(chan error, 1)
	go func() { ended <- followIdentity(t.Context(), path, []byte("old"), time.Millisecond) }()
	for _, harmless := range []func(){func() {}, func() { write("") }, func() { _ = os.Remove(path) }, func() { write("old") }} {
		harmless()
		select {
		case err := <-ended:
			t.Fatalf("ended with %v although the identity is the same", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	write("new")
	if err := <-ended; !errors.Is(err, errNewIdentity) {
		t.Errorf("a new identity: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := followIdentity(ctx, path, []byte("new"), time.Hour); err != nil {
		t.Errorf("asked to end: %v", err)
	}
}
