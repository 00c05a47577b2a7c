package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/apitest"
	"liqo.io/liqo/test/clitest"
)

// The federation for which the memory of the dashboard is promised, and the promise.
const (
	dashboardPeers       = 100
	dashboardPods        = 5000
	dashboardMemoryLimit = 300 << 20
)

// TestDashboardMemoryOnAPIServer: with 100 peers and 5,000 pods, the program needs less than 300 MiB, also while somebody looks at the page.
func TestDashboardMemoryOnAPIServer(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "liqoctl")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "liqo.io/liqo/cmd/liqoctl").CombinedOutput(); err != nil {
		t.Fatalf("building liqoctl: %v: %s", err, out)
	}
	kubeconfig, c := server(t)
	clitest.Create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}},
		&offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: offloadingv1beta1.NamespaceOffloadingName}})
	var group errgroup.Group
	group.SetLimit(16)
	for i := range dashboardPeers {
		group.Go(func() error { return createPeer(t, c, fmt.Sprintf("peer-%d", i)) })
	}
	for i := range dashboardPods {
		group.Go(func() error {
			return c.Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: fmt.Sprintf("web-%d", i), Labels: map[string]string{"app": "web"}},
				Spec: corev1.PodSpec{NodeName: fmt.Sprintf("peer-%d", i%dashboardPeers), Containers: []corev1.Container{{
					Name: "web", Image: "registry.example.org/shop/web:1", Env: []corev1.EnvVar{{Name: "TEXT", Value: strings.Repeat("x", 1000)}},
				}}},
			})
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}

	command := exec.CommandContext(t.Context(), program, "dashboard", "--kubeconfig", kubeconfig)
	var problem strings.Builder
	command.Stderr = &problem
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	printed, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no address is printed: %v: %s", err, problem.String())
	}
	address, token, _ := strings.Cut(strings.TrimSpace(printed), "#")
	response, err := http.Post(address+"api/session", "application/json", strings.NewReader(fmt.Sprintf("{%q:%q}", "token", token)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var body struct{ Session string }
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"api/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+body.Session)
	stream, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Body.Close() }()
	var read atomic.Int64
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			n, err := stream.Body.Read(buffer)
			read.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	apitest.Eventually(t, time.Minute, "the page to have all pods", func() error {
		if n := read.Load(); n < dashboardPods*20 {
			return fmt.Errorf("it has got %d bytes", n)
		}
		return nil
	})
	for i := range 50 { // what follows changes needs memory, too
		if err := c.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: fmt.Sprintf("web-%d", i)}}, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	most, err := peakMemory(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("at most %d MiB; the page has got %d KiB", most>>20, read.Load()>>10)
	if most > dashboardMemoryLimit {
		t.Errorf("liqoctl dashboard needs up to %d MiB, want at most %d MiB", most>>20, dashboardMemoryLimit>>20)
	}
}

// createPeer makes a peer with its virtual node.
func createPeer(t *testing.T, c client.Client, id string) error {
	labels := map[string]string{api.LabelRemoteClusterID: id, api.LabelTenantNamespace: api.True}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.TenantNamespace(id), Labels: labels}},
		&corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: id, Labels: labels}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: id}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: id, Labels: map[string]string{api.LabelRemoteClusterID: id, api.LabelType: api.TypeVirtualNode}}},
	} {
		if err := c.Create(t.Context(), object); err != nil {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// peakMemory is the most physical memory that a process has had so far (VmHWM, proc_pid_status(5)).
func peakMemory(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if text, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmHWM", pid)
}
