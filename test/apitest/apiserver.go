// Package apitest starts real API servers for tests: etcd and the kube-apiserver that the playground has built, with the custom resources of Liqo
// installed. There is no controller manager and no kubelet, so a test observes only the effects of the code under test.
//
// Each test has API servers and etcds of its own, so tests share no state. Two measures make a server cheap. First, its etcd starts from a copy of
// prepared files, which contain the CRDs and the default roles of Kubernetes, and no other objects. Second, etcd and API server are killed when the
// test ends, because their data is no longer needed.
package apitest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// EnvBinaries is the environment variable with the folder of etcd and kube-apiserver. If it is unset, the playground tool
// provides the folder.
const EnvBinaries = "PLAYGROUND_BINARIES"

// APIServer starts an API server for the test, with the CRDs of Liqo, and returns the client configuration of an administrator.
// The server ends when the test ends. If it cannot be started, the test fails.
func APIServer(t testing.TB) *rest.Config {
	t.Helper()
	_, config := Environment(t)
	return config
}

// APIServers starts two API servers in parallel: near for a consumer, far for a provider.
func APIServers(t testing.TB) (near, far *rest.Config) {
	t.Helper()
	Both(t, func() { near = APIServer(t) }, func() { far = APIServer(t) })
	return near, far
}

// Both runs two functions in parallel, for a consumer and for a provider. It ends the test if it failed in one of them.
func Both(t testing.TB, near, far func()) {
	t.Helper()
	var doing sync.WaitGroup
	doing.Go(near)
	doing.Go(far)
	doing.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// Client returns a client that reads from and writes to the API server directly, without a cache. It can watch, too: it is a client.WithWatch.
func Client(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		t.Fatalf("creating a client: %v", err)
	}
	return c
}

// Eventually waits until check returns nil. If that takes longer than within, the test fails with the last error of check. It
// polls every 20 ms, because tests of level 2 (against a real API server) observe another process, which cannot notify them.
func Eventually(t testing.TB, within time.Duration, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting %s for %s: %v", within, what, err)
		case <-tick.C:
		}
	}
}

// binaries returns the folder with etcd and kube-apiserver.
func binaries(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(EnvBinaries); dir != "" {
		return dir
	}
	playground := filepath.Join(root(t), "bin", "playground")
	out, err := exec.CommandContext(t.Context(), playground, "get", "binaries").Output()
	if err != nil {
		t.Fatalf("asking %s for its binaries (make build makes it; or set %s): %v", playground, EnvBinaries, err)
	}
	return strings.TrimSpace(string(out))
}

// root returns the folder of the module's go.mod. Tests run in the folder of their package, somewhere below it.
func root(t testing.TB) string {
	t.Helper()
	start, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("looking for go.mod in %s and above: there is none", start)
		}
	}
}
