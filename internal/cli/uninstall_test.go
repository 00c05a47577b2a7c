package cli

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/install/installer"
	kubetesting "liqo.io/liqo/internal/testing"
)

// TestUninstallHoldsNothingOnAPIServer: with the controllers gone, the ranges of the installation go with it, and what stays is its owner's to
// delete.
func TestUninstallHoldsNothingOnAPIServer(t *testing.T) {
	env, config := kubetesting.Environment(t)
	c := kubetesting.Client(t, config)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}})
	getter := genericclioptions.NewConfigFlags(false)
	getter.KubeConfig = &kubeconfig
	release, err := installer.NewRelease(getter, "liqo", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	chart, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	_, err = release.Apply(chart, map[string]any{
		"discovery": map[string]any{"config": map[string]any{"clusterID": "rome"}},
		"ipam":      map[string]any{"podCIDRs": []any{"10.244.0.0/16"}, "serviceCIDR": "10.96.0.0/16"},
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	ours := &ipamv1alpha1.Network{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: ipamv1alpha1.NetworkExternal}, ours); err != nil {
		t.Fatal(err)
	}
	users := &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lab", Finalizers: []string{ipamv1alpha1.FinalizerNetwork}},
		Spec:       ipamv1alpha1.NetworkSpec{CIDR: "10.40.0.0/24"},
	}
	create(t, c, users)

	if code, out, errOut := run(t, "uninstall", "--skip-confirm", "--kubeconfig", kubeconfig); code != 0 {
		t.Fatalf("code %d: %s%s", code, out, errOut)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(ours), ours); !apierrors.IsNotFound(err) {
		t.Errorf("Network %s of the chart is still there: %v", ours.Name, err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(users), users); err != nil {
		t.Fatalf("a user's Network went with the installation: %v", err)
	}
	if err := c.Delete(t.Context(), users); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(users), users); !apierrors.IsNotFound(err) {
		t.Errorf("a user's Network can't be deleted, finalizers %v: %v", users.Finalizers, err)
	}
}
