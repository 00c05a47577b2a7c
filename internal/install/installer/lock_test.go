package installer

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"helm.sh/helm/v4/pkg/release/common"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/test/apitest"
)

// TestOnlyOneProcessChangesAnInstallation: a second process is refused while the first one renews the lock. It takes over the lock when the first one has
// ended.
func TestOnlyOneProcessChangesAnInstallation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
		acquire := func(holder string) (*Lock, error) {
			_, lock, err := Acquire(t.Context(), c, "liqo", holder, LockTiming{}, func(string) {})
			return lock, err
		}
		first, err := acquire("alice on rome")
		if err != nil {
			t.Fatal(err)
		}
		held := (*HeldError)(nil)
		stolen, err := acquire("bob on milan")
		if !errors.As(err, &held) || held.Holder != "alice on rome" || !strings.Contains(err.Error(), "is being changed by alice on rome, since ") {
			t.Errorf("a second process is not refused: %v", err)
		}
		if stolen != nil {
			stolen.Keep()
		}
		first.Keep() // as if it was killed
		second, err := acquire("bob on milan")
		if err != nil {
			t.Fatalf("the lock of a killed process: %v", err)
		}
		if second.From != "alice on rome" {
			t.Errorf("the lock was that of %q", second.From)
		}
		if err := second.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestLockOnAPIServer: one process at a time changes an installation. A second process gets an error with the holder and the time of its lock. A
// process takes over the lock of a killed one. A process that loses the lock gets an error.
func TestLockOnAPIServer(t *testing.T) {
	c := apitest.Client(t, apitest.APIServer(t))
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}}); err != nil {
		t.Fatal(err)
	}
	timing := LockTiming{Duration: 5 * time.Second, Renew: 300 * time.Millisecond} // a busy machine may renew seconds late
	acquire := func(holder string) (context.Context, *Lock, error) {
		return Acquire(t.Context(), c, "liqo", holder, timing, func(string) {})
	}
	_, first, err := acquire("alice on rome")
	if err != nil {
		t.Fatal(err)
	}
	held := (*HeldError)(nil)
	if _, _, err := acquire("bob on milan"); !errors.As(err, &held) || held.Holder != "alice on rome" || time.Since(held.Since) > time.Minute ||
		!strings.Contains(err.Error(), "is being changed by alice on rome, since ") || !strings.Contains(err.Error(), "If it is killed, the lock expires 5s later") {
		t.Errorf("error %v", err)
	}
	first.Keep() // as if it was killed
	ctx, second, err := acquire("bob on milan")
	if err != nil || second.From != "alice on rome" || second.FromSince.IsZero() {
		t.Fatalf("replacing %q of %s: %v", second.From, second.FromSince, err)
	}
	var lease coordinationv1.Lease
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: LockName}, &lease); err != nil || *lease.Spec.HolderIdentity != "bob on milan" {
		t.Fatalf("%v: %v", lease.Spec.HolderIdentity, err)
	}
	apitest.Eventually(t, 10*time.Second, "the lock to be taken away", func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(&lease), &lease); err != nil {
			return err
		}
		*lease.Spec.HolderIdentity = "carol on turin"
		return c.Update(t.Context(), &lease)
	})
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
	}
	if !errors.Is(context.Cause(ctx), ErrLockLost) {
		t.Errorf("who lost the lock hears %v", context.Cause(ctx))
	}
	if err := c.Delete(t.Context(), &lease); err != nil {
		t.Fatal(err)
	}
	// A purge deletes the namespace with its own lock. That is not a lost lock.
	ctx, purging, err := acquire("erin on siena")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: LockName}}); err != nil {
		t.Fatal(err)
	}
	purging.done.Wait() // it stops renewing
	if ctx.Err() != nil {
		t.Errorf("who deleted the lock together with its namespace hears %v", context.Cause(ctx))
	}
	if err := purging.Release(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 { // a released lock is free at once
		_, third, err := acquire("dave on pisa")
		if err != nil || third.From != "" {
			t.Fatal(err)
		}
		if err := third.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestPendingReleaseOnAPIServer: a release that another Helm process is changing stays unchanged. The change of a killed process is rolled back.
func TestPendingReleaseOnAPIServer(t *testing.T) {
	env, config := apitest.Environment(t)
	c := apitest.Client(t, config)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	getter := genericclioptions.NewConfigFlags(false)
	getter.KubeConfig = &kubeconfig
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}}); err != nil {
		t.Fatal(err)
	}
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	release, err := NewRelease(getter, "liqo", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := release.Apply(chart, parse(t, minimal), false); err != nil {
		t.Fatal(err)
	}
	pend := func(since time.Time) {
		t.Helper()
		last, err := release.last()
		if err != nil {
			t.Fatal(err)
		}
		last.Info.Status, last.Info.LastDeployed = common.StatusPendingInstall, since
		if err := release.config.Releases.Update(last); err != nil {
			t.Fatal(err)
		}
	}
	pend(time.Now())
	pending := (*PendingError)(nil)
	if _, err := release.Apply(chart, parse(t, minimal), false); !errors.As(err, &pending) || !strings.Contains(err.Error(), "is pending-install since ") {
		t.Errorf("while it is being installed: %v", err)
	}
	release.Abandoned = true
	if _, err := release.Apply(chart, parse(t, minimal), false); err != nil {
		t.Errorf("whose process is known to be gone: %v", err)
	}
	release.Abandoned = false
	pend(time.Now().Add(-2 * helmTimeout))
	if _, err := release.Apply(chart, parse(t, minimal), false); err != nil {
		t.Errorf("whose time is over: %v", err)
	}
}

// TestOneVersion: the chart of the repository gets the same version for its images and labels, whether the user sets the tag in values or passes --version.
func TestOneVersion(t *testing.T) {
	for name, test := range map[string]struct {
		asked, tag, want string
	}{
		"values with a tag":       {tag: "v9.9.9", want: "v9.9.9"},
		"asked for":               {asked: "v8.8.8", want: "v8.8.8"},
		"a tag has the last word": {asked: "v8.8.8", tag: "v9.9.9", want: "v9.9.9"},
		"that of liqoctl":         {want: "v7.7.7"},
	} {
		chart, err := Chart("../../../charts/liqo")
		if err != nil {
			t.Fatal(err)
		}
		SetVersion(chart, cmp.Or(test.asked, "v7.7.7"), test.asked != "")
		values := parse(t, minimal)
		if test.tag != "" {
			values["tag"] = test.tag
		}
		manifest, err := Render(chart, "liqo", values)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(manifest, placeholder+"\"") || strings.Contains(manifest, ":"+placeholder) {
			t.Errorf("%s: the placeholder is a tag", name)
		}
		for _, want := range []string{"/controller-manager:" + test.want, "app.kubernetes.io/version: " + test.want} {
			if !strings.Contains(manifest, want) {
				t.Errorf("%s: no %q", name, want)
			}
		}
	}
	released, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	released.Metadata.AppVersion = "v1.0.0"
	if SetVersion(released, "v7.7.7", false); released.Metadata.AppVersion != "v1.0.0" {
		t.Errorf("a chart with a version of its own has %s", released.Metadata.AppVersion)
	}
}
