package installer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/internal/install/clusterid"
	"liqo.io/liqo/test/apitest"
)

// TestInstallOnAPIServer installs, upgrades, rolls back and removes the chart on a real API server.
func TestInstallOnAPIServer(t *testing.T) {
	ctx := t.Context()
	env, config := apitest.Environment(t)
	c := apitest.Client(t, config)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	getter := genericclioptions.NewConfigFlags(false)
	getter.KubeConfig = &kubeconfig

	facts, err := Gather(ctx, config, c, "liqo")
	if err != nil {
		t.Fatal(err)
	}
	if facts.InstalledID != "" || len(facts.Denied) > 0 || facts.ServerVersion == "" {
		t.Errorf("facts of an empty cluster: %+v", facts)
	}
	if networks := install.DiscoverNetworks(install.Request{}, facts); len(networks.ServiceCIDRs) == 0 {
		t.Errorf("the service CIDR was not found: %+v", facts.Network)
	}

	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}}); err != nil {
		t.Fatal(err)
	}
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	crds, err := CRDs(chart)
	if err != nil {
		t.Fatal(err)
	}
	// The first call updates CRDs of another owner, the second one its own.
	for range 2 {
		defined, err := ApplyCRDs(ctx, c, crds, map[string]string{"team": "blue"}, nil)
		if err != nil || len(defined.Created) > 0 || len(defined.Before) != len(crds) {
			t.Fatalf("created %d, changed %d: %v", len(defined.Created), len(defined.Before), err)
		}
	}
	if defined, err := Definitions(ctx, c); err != nil || len(defined) != len(crds) || defined[0].GetLabels()["team"] != "blue" {
		t.Errorf("%d definitions, want %d: %v", len(defined), len(crds), err)
	}

	release, err := NewRelease(getter, "liqo", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if version, err := release.Version(); err != nil || version != "" {
		t.Errorf("version %q before the installation: %v", version, err)
	}
	values := func(replicas int) map[string]any {
		return map[string]any{
			"discovery":         map[string]any{"config": map[string]any{"clusterID": "rome"}},
			"controllerManager": map[string]any{"replicas": replicas},
		}
	}
	first, err := release.Apply(chart, values(1), false)
	if err != nil {
		t.Fatal(err)
	}
	if !first.Fresh() {
		t.Error("the first installation is no fresh one")
	}
	replicas := func() int32 {
		t.Helper()
		var deployment appsv1.Deployment
		if err := c.Get(ctx, client.ObjectKey{Namespace: "liqo", Name: "liqo-controller-manager"}, &deployment); err != nil {
			t.Fatal(err)
		}
		return *deployment.Spec.Replicas
	}
	if id, where, err := clusterid.Find(ctx, c, "elsewhere"); id != "rome" || where != "liqo" || err != nil {
		t.Errorf("cluster %q in %q: %v", id, where, err)
	}
	var template offloadingv1beta1.VkOptionsTemplate
	if err := c.Get(ctx, client.ObjectKey{Namespace: "liqo", Name: offloadingv1beta1.VkOptionsTemplateDefault}, &template); err != nil {
		t.Error(err)
	}

	second, err := release.Apply(chart, values(2), false)
	if err != nil || second.Fresh() || replicas() != 2 {
		t.Fatalf("upgrade: fresh %v, %d replicas: %v", second.Fresh(), replicas(), err)
	}
	if _, err := release.Apply(chart, install.Merge(values(2), map[string]any{"pullPolicy": "Always"}), false); err != nil || replicas() != 2 {
		t.Fatalf("upgrade: %d replicas: %v", replicas(), err)
	}
	if err := second.Undo(); err != nil || replicas() != 1 {
		t.Fatalf("taking back: %d replicas: %v", replicas(), err)
	}

	// An upgrade must not disable the network while a peer uses it.
	off := install.Merge(values(1), map[string]any{"networking": map[string]any{"enabled": false}})
	meta := metav1.ObjectMeta{Namespace: "default", Name: "milan"}
	for kind, object := range map[string]client.Object{
		"Configuration": &networkingv1beta1.Configuration{ObjectMeta: meta}, "GatewayServer": &networkingv1beta1.GatewayServer{ObjectMeta: meta, Spec: networkingv1beta1.GatewayServerSpec{
			Endpoint: networkingv1beta1.ServerEndpoint{Port: networkingv1beta1.GatewayPort},
		}},
		"GatewayClient": &networkingv1beta1.GatewayClient{ObjectMeta: meta, Spec: networkingv1beta1.GatewayClientSpec{
			Endpoint: networkingv1beta1.Endpoint{Addresses: []string{"192.0.2.1"}, Port: networkingv1beta1.GatewayPort, Protocol: "UDP"},
		}},
	} {
		if err := c.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
		if _, err := release.Apply(chart, off, false); err == nil || !strings.Contains(err.Error(), kind+" default/milan says that a peer is connected") {
			t.Errorf("networking is turned off: %v", err)
		}
		if err := c.Delete(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := release.Apply(chart, off, false); err != nil {
		t.Errorf("without a peer: %v", err)
	}

	if err := release.Uninstall(); err != nil {
		t.Fatal(err)
	}
	if err := release.Uninstall(); err != nil {
		t.Errorf("uninstalling twice: %v", err)
	}
	for _, object := range []client.Object{&appsv1.Deployment{}, &rbacv1.ClusterRole{}} {
		object.SetName("liqo-controller-manager")
		if _, namespaced := object.(*appsv1.Deployment); namespaced {
			object.SetNamespace("liqo")
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("%T is left: %v", object, err)
		}
	}
	if leftovers, err := Leftovers(ctx, c); err != nil || len(leftovers) > 0 {
		t.Errorf("leftovers %v: %v", leftovers, err)
	}
}

// TestPurgeOnAPIServer: objects with a finalizer, whose controller no longer runs, do not block the deletion of their CRDs.
func TestPurgeOnAPIServer(t *testing.T) {
	ctx := t.Context()
	c := apitest.Client(t, apitest.APIServer(t))
	stuck := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: offloadingv1beta1.NamespaceOffloadingName, Finalizers: []string{"namespaceoffloading-controller.liqo.io/finalizer"},
	}}
	role := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "liqo-node-milan", Labels: map[string]string{"app.kubernetes.io/managed-by": "liqo"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "x"},
	}
	for _, object := range []client.Object{stuck, role} {
		if err := c.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	definitions, err := Definitions(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	leftovers, err := Leftovers(ctx, c)
	if err != nil || len(leftovers) != 1 {
		t.Fatalf("leftovers %v: %v", leftovers, err)
	}
	if err := ReleaseObjects(ctx, c, definitions, nil); err != nil {
		t.Fatal(err)
	}
	if err := Remove(ctx, c, append(leftovers, definitions...)); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, timeToDelete, "definitions and leftovers to be gone", func() error {
		defined, err := Definitions(ctx, c)
		if err != nil || len(defined) > 0 {
			return errors.Join(err, fmt.Errorf("%d definitions are left", len(defined)))
		}
		return nil
	})
	if err := Remove(ctx, c, definitions); err != nil {
		t.Errorf("removing twice: %v", err)
	}
}

const timeToDelete = 30 * time.Second
