package installer

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/test/apitest"
)

// TestPlainHelmOnAPIServer does what helm install and helm upgrade do, without liqoctl and with no value given: the cluster gets an ID, and keeps it.
func TestPlainHelmOnAPIServer(t *testing.T) {
	env, config := apitest.Environment(t)
	c := apitest.Client(t, config)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	getter := genericclioptions.NewConfigFlags(false)
	getter.KubeConfig = &kubeconfig
	helm := action.NewConfiguration(action.ConfigurationSetLogger(slog.NewTextHandler(io.Discard, nil)))
	if err := helm.Init(getter, "liqo", "secret"); err != nil {
		t.Fatal(err)
	}
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	id := func() string {
		t.Helper()
		var known corev1.ConfigMap
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: api.ClusterIDConfigMap}, &known); err != nil {
			t.Fatal(err)
		}
		return known.Data[api.ClusterIDKey]
	}
	upgrade := func(values map[string]any) {
		t.Helper()
		run := action.NewUpgrade(helm)
		run.Namespace, run.WaitStrategy, run.ServerSideApply = "liqo", kube.HookOnlyStrategy, "auto"
		if _, err := run.Run(install.Release, chart, values); err != nil {
			t.Fatal(err)
		}
	}

	run := action.NewInstall(helm)
	run.ReleaseName, run.Namespace, run.CreateNamespace, run.WaitStrategy, run.ServerSideApply = install.Release, "liqo", true, kube.HookOnlyStrategy, true
	if _, err := run.Run(chart, nil); err != nil {
		t.Fatal(err)
	}
	var system corev1.Namespace
	if err := c.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		t.Fatal(err)
	}
	made := "cluster-" + string(system.UID)[:8]
	if got := id(); got != made {
		t.Errorf("this is cluster %q, want %q", got, made)
	}
	upgrade(nil)
	if got := id(); got != made {
		t.Errorf("after an upgrade this is cluster %q, want %q", got, made)
	}
	upgrade(parse(t, minimal))
	// A user forgets --reuse-values.
	upgrade(nil)
	if got := id(); got != "rome" {
		t.Errorf("after an upgrade that does not say the ID this is cluster %q, want rome", got)
	}

	// liqoctl can upgrade a release that Helm installed. Helm can upgrade and roll back a release that liqoctl upgraded.
	resources := func() string {
		t.Helper()
		var deployment appsv1.Deployment
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: "liqo-controller-manager"}, &deployment); err != nil {
			t.Fatal(err)
		}
		return deployment.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String()
	}
	asking := func(cpu string) map[string]any {
		return map[string]any{"controllerManager": map[string]any{"pod": map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": cpu}}}}}
	}
	ours, err := NewRelease(getter, "liqo", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Apply(chart, asking("51m"), false); err != nil || resources() != "51m" {
		t.Errorf("upgraded by liqoctl it asks for %s: %v", resources(), err)
	}
	upgrade(asking("52m"))
	if got := resources(); got != "52m" {
		t.Errorf("upgraded by Helm it asks for %s, want 52m", got)
	}
	back := action.NewRollback(helm)
	back.WaitStrategy, back.ServerSideApply = kube.HookOnlyStrategy, "auto"
	if err := back.Run(install.Release); err != nil || resources() != "51m" {
		t.Errorf("taken back by Helm it asks for %s: %v", resources(), err)
	}
	if got := id(); got != "rome" {
		t.Errorf("in the end this is cluster %q, want rome", got)
	}
}
