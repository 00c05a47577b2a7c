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
	"time"

	"helm.sh/helm/v4/pkg/release/common"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubetesting "liqo.io/liqo/internal/testing"
)

// TestLockOnAPIServer: one process at a time changes an installation. Another one hears who that is and since when; one that was killed is replaced, and
// one that lost the lock is told.
func TestLockOnAPIServer(t *testing.T) {
	c := kubetesting.Client(t, kubetesting.APIServer(t))
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}}); err != nil {
		t.Fatal(err)
	}
	timing := LockTiming{Duration: 2 * time.Second, Renew: 300 * time.Millisecond}
	acquire := func(holder string) (context.Context, *Lock, error) {
		return Acquire(t.Context(), c, "liqo", holder, timing, func(string) {})
	}
	_, first, err := acquire("alice on rome")
	if err != nil {
		t.Fatal(err)
	}
	held := (*HeldError)(nil)
	if _, _, err := acquire("bob on milan"); !errors.As(err, &held) || held.Holder != "alice on rome" || time.Since(held.Since) > time.Minute ||
		!strings.Contains(err.Error(), "is being changed by alice on rome, since ") || !strings.Contains(err.Error(), "If it is killed, the lock is free 2s later") {
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
	kubetesting.Eventually(t, 10*time.Second, "the lock to be taken away", func() error {
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
	// A purge deletes the namespace, and so the lock that it holds: it has not lost it to anybody.
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
	for range 2 { // what is given back is free at once
		_, third, err := acquire("dave on pisa")
		if err != nil || third.From != "" {
			t.Fatal(err)
		}
		if err := third.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestPendingReleaseOnAPIServer: what another Helm is changing is left alone; what a killed one left half done is rolled back.
func TestPendingReleaseOnAPIServer(t *testing.T) {
	env, config := kubetesting.Environment(t)
	c := kubetesting.Client(t, config)
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

// TestOneVersion: with the values that liqoctl writes, and with --version, the chart of the repository has one version: that of images and labels.
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
