package cli

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/test/apitest"
	"liqo.io/liqo/test/clitest"
)

// TestTwoInstallsOnAPIServer: the second of two installations at the same time is refused, with the holder and start time of the first, which
// completes. The lock of a killed installation expires.
func TestTwoInstallsOnAPIServer(t *testing.T) {
	t.Parallel()
	liqoctl, c := bare(t)
	key := client.ObjectKey{Namespace: "liqo", Name: installer.LockName}
	type result struct {
		code int
		said string
	}
	first := make(chan result, 1)
	go func() { // it waits for its pods, which nobody starts yet
		code, said := liqoctl(t.Context(), "install --cluster-id rome")
		first <- result{code, said}
	}()
	apitest.Eventually(t, 2*time.Minute, "the first to wait for its pods", func() error {
		var deployment appsv1.Deployment
		return c.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: session.ControllerManager}, &deployment)
	})
	for _, command := range []string{"install --cluster-id milan --skip-validation", "upgrade", "uninstall --skip-confirm"} {
		code, said := liqoctl(t.Context(), command)
		if code != 1 || !strings.Contains(said, "the installation in namespace liqo is being changed by liqoctl of ") || !strings.Contains(said, ", since 20") {
			t.Errorf("%s: code %d: %s", command, code, said)
		}
	}
	keepRunning(t.Context(), t, c)
	if ended := <-first; ended.code != 0 || !strings.Contains(ended.said, "All Set! This cluster is rome") {
		t.Fatalf("code %d: %s", ended.code, ended.said)
	}
	lease := &coordinationv1.Lease{}
	if err := c.Get(t.Context(), key, lease); !apierrors.IsNotFound(err) {
		t.Errorf("the lock is not given back: %v", err)
	}
	killed, long := "liqoctl of alice on her laptop (process 7)", metav1.NewMicroTime(time.Now().Add(-time.Hour))
	seconds := int32(1)
	clitest.Create(t, c, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &killed, AcquireTime: &long, RenewTime: &long, LeaseDurationSeconds: &seconds,
	}})
	if code, said := liqoctl(t.Context(), "upgrade"); code != 0 || !strings.Contains(said, "The lock of "+killed+", acquired at ") {
		t.Errorf("code %d: %s", code, said)
	}
}

// TestVersionWithoutHelm: the version is reported however Liqo was installed.
func TestVersionWithoutHelm(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	if ran := w.in(t, w.snapshot(), "version"+lawOne, nil); ran.code != 0 || !strings.Contains(ran.out, "Server version: v1.2.3\n") {
		t.Errorf("code %d: %s%s", ran.code, ran.out, ran.said)
	}
	if ran := w.in(t, w.snapshot(), "version -o json"+lawOne, nil); ran.code != 0 || !strings.Contains(ran.out, `"serverVersion": "v1.2.3"`) || !json.Valid([]byte(ran.out)) {
		t.Errorf("as JSON: code %d: %s%s", ran.code, ran.out, ran.said)
	}
	if ran := w.in(t, worldSnapshot{}, "version"+lawOne, nil); ran.code != 1 || !strings.Contains(ran.out, "Server version: Unknown\n") {
		t.Errorf("nothing installed: code %d: %s%s", ran.code, ran.out, ran.said)
	}
}

// TestUninstalledByHelm: objects of a peering that helm uninstall left are named, with a cure that works without the programs.
func TestUninstalledByHelm(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	w.begin(w.in(t, w.snapshot(), "peer"+lawBoth, nil).left)
	rome := w.clusters["rome"].client
	for _, object := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: api.ClusterIDConfigMap}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: session.ControllerManager}},
	} {
		if err := rome.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	left := w.snapshot()
	ran := w.in(t, left, "uninstall"+lawOne, nil)
	for _, want := range []string{"the cluster is peered with milan", "liqoctl uninstall --purge", "liqoctl force unpeer", "same --cluster-id"} {
		if ran.code != 1 || ran.wrote != 0 || !strings.Contains(ran.said, want) {
			t.Errorf("code %d, %d changes, no %q in %s", ran.code, ran.wrote, want, ran.said)
		}
	}
	ran = w.in(t, left, "uninstall --purge --dry-run"+lawOne, nil)
	for _, want := range []string{"Then on milan: liqoctl force unpeer ID, with the ID of this cluster", "Node milan", "Namespace liqo-tenant-milan"} {
		if ran.code != 0 || ran.wrote != 0 || !strings.Contains(ran.said, want) {
			t.Errorf("code %d, %d changes, no %q in %s", ran.code, ran.wrote, want, ran.said)
		}
	}
}

// TestWaitComparesUIDs: the command does not wait for the deletion of another object of the same name.
func TestWaitComparesUIDs(t *testing.T) {
	w := installedWorld(t)
	app := session.New(genericiooptions.NewTestIOStreamsDiscard())
	*app.Kubeconfig.KubeConfig = filepath.Join(w.dir, "rome")
	app.Wrap = func(config *rest.Config) *rest.Config {
		config.Transport, config.ContentType = w, runtime.ContentTypeJSON
		return config
	}
	c, err := app.Local()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.WaitGone(ctx, nil, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "first"}}); err != nil {
		t.Error(err)
	}
}
