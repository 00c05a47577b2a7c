// Package testing starts real API servers for tests: etcd and the kube-apiserver that the playground has built, with the custom
// resources of Liqo installed. There is no controller manager and no kubelet, so a test observes only the effects of the code
// under test.
package testing

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
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"liqo.io/liqo/internal/kube"
)

// EnvBinaries is the environment variable with the folder of etcd and kube-apiserver. If it is unset, the playground tool
// provides the folder.
const EnvBinaries = "PLAYGROUND_BINARIES"

// APIServer starts an API server for the test, installs the CRDs of Liqo, and returns the client configuration of an
// administrator. The server stops when the test ends. If it cannot be started, the test fails.
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

// Environment is like APIServer, for tests that also add users, stop and start the server themselves, or set flags of the server
// (name, value).
func Environment(t testing.TB, flags ...[2]string) (*envtest.Environment, *rest.Config) {
	t.Helper()
	server, config, _ := WithAuthority(t, flags...)
	return server, config
}

// WithAuthority is like Environment, for tests that need client certificates which the API server trusts.
func WithAuthority(t testing.TB, flags ...[2]string) (*envtest.Environment, *rest.Config, *Authority) {
	t.Helper()
	authority, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	server := &envtest.Environment{
		BinaryAssetsDirectory: binaries(t),
		CRDDirectoryPaths:     []string{filepath.Join(root(t), "charts", "liqo", "crds")},
		ErrorIfCRDPathMissing: true,
		Scheme:                kube.NewScheme(),
		// A machine with two cores may start several servers at the same time.
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	server.ControlPlane.GetAPIServer().Authn = authority
	configured := server.ControlPlane.GetAPIServer().Configure().
		// The clients limit the request rate; this server must not queue requests.
		Set("enable-priority-and-fairness", "false")
	for _, flag := range flags {
		configured.Set(flag[0], flag[1])
	}
	config, err := server.Start()
	if err != nil {
		t.Fatalf("starting an API server from %s: %v", server.BinaryAssetsDirectory, err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	config.QPS = -1
	return server, config, authority
}

// Client returns a client that reads from and writes to the API server directly, without a cache.
func Client(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		t.Fatalf("making a client: %v", err)
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
