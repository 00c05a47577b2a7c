package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/setup"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/test/apitest"
	"liqo.io/liqo/test/clitest"
)

// TestUninstallWithoutControllersOnAPIServer: without controllers, the ranges of the installation are deleted with it, and their owners delete the
// rest.
func TestUninstallWithoutControllersOnAPIServer(t *testing.T) {
	t.Parallel()
	env, config := apitest.Environment(t)
	c := apitest.Client(t, config)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}})
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
	clitest.Create(t, c, users)

	code, _, said := run(t, "uninstall", "--purge", "--dry-run", "--kubeconfig", kubeconfig)
	for _, want := range []string{
		"INFO  Dry run: nothing was changed. These would be removed:\n", "       Helm release in namespace liqo, with its ", " objects\n",
		"       CustomResourceDefinition networks.ipam.liqo.io\n", "       Namespace liqo\n",
	} {
		if code != 0 || !strings.Contains(said, want) {
			t.Errorf("code %d, no %q in\n%s", code, want, said)
		}
	}
	if code, _, said := run(t, "uninstall", "--kubeconfig", kubeconfig); code != 1 || !strings.Contains(said, "not confirmed: nothing was changed (--skip-confirm answers yes)") {
		t.Errorf("code %d: %s", code, said)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(ours), ours); err != nil {
		t.Fatalf("something was removed: %v", err)
	}

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

// TestUninstallRefusesOnAPIServer: every use of the installation is named, with the command that ends it.
func TestUninstallRefusesOnAPIServer(t *testing.T) {
	t.Parallel()
	kubeconfig, c := server(t)
	meta := func(name, peer string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{api.LabelRemoteClusterID: peer}}
	}
	for _, test := range []struct {
		object client.Object
		want   string
	}{
		{&authv1beta1.Identity{ObjectMeta: meta("controlplane-milan", "milan"), Spec: authv1beta1.IdentitySpec{ClusterID: "milan", Type: authv1beta1.IdentityControlPlane}},
			"the cluster is peered with milan (Identity controlplane-milan in namespace default): liqoctl unpeer\n"},
		{&authv1beta1.Tenant{ObjectMeta: meta("naples", "naples"), Spec: authv1beta1.TenantSpec{ClusterID: "naples"}},
			"the cluster is peered with naples (Tenant naples in namespace default): liqoctl unpeer, run on cluster naples\n"},
		{&offloadingv1beta1.VirtualNode{ObjectMeta: meta("turin", "turin"), Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: "turin"}},
			"the cluster is peered with turin (VirtualNode turin in namespace default): liqoctl unpeer\n"},
		{&networkingv1beta1.GatewayClient{ObjectMeta: meta("bari", "bari"), Spec: networkingv1beta1.GatewayClientSpec{
			Endpoint: networkingv1beta1.Endpoint{Addresses: []string{"192.0.2.1"}, Port: networkingv1beta1.GatewayPort, Protocol: "UDP"},
		}}, "the network is connected to that of bari (GatewayClient bari in namespace default): liqoctl network reset\n"},
		{&networkingv1beta1.Configuration{ObjectMeta: meta("pisa", "pisa")}, "the network is connected to that of pisa (Configuration pisa in namespace default): liqoctl network reset\n"},
		{&offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: offloadingv1beta1.NamespaceOffloadingName}},
			"namespace default is offloaded: liqoctl unoffload namespace default\n"},
		{&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner}},
			Spec: corev1.PersistentVolumeSpec{
				Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				ClaimRef:               &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: "1"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}},
			},
		}, "PersistentVolumeClaim data in namespace shop has a volume of Liqo, 1Gi: copy the data to a claim of another StorageClass, then delete it, or abandon the data with --delete-volumes\n"},
	} {
		clitest.Create(t, c, test.object)
		for _, args := range []string{"uninstall", "uninstall --purge", "uninstall --dry-run"} {
			code, _, said := run(t, append(strings.Fields(args), "--skip-confirm", "--kubeconfig", kubeconfig)...)
			if code != 1 || !strings.Contains(said, "ERRO  liqo is in use:\n") || !strings.Contains(said, test.want) {
				t.Errorf("%s with %T: code %d, no %q in\n%s", args, test.object, code, test.want, said)
			}
			if hint := strings.Contains(said, "gone for good: liqoctl force unpeer"); hint != strings.Contains(test.want, "liqoctl unpeer") {
				t.Errorf("%s with %T: hint %t in\n%s", args, test.object, hint, said)
			}
		}
		if err := c.Delete(t.Context(), test.object); err != nil {
			t.Fatal(err)
		}
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "liqo-by-hand", Labels: map[string]string{"app.kubernetes.io/part-of": "liqo"}}}
	clitest.Create(t, c, role)
	app := session.New(genericiooptions.NewTestIOStreamsDiscard())
	app.Kubeconfig.KubeConfig = &kubeconfig
	at, err := app.Local()
	if err != nil {
		t.Fatal(err)
	}
	if err := setup.NoRolesLeft(t.Context(), at); err == nil || !strings.Contains(err.Error(), "ClusterRole liqo-by-hand is left") {
		t.Errorf("error %v", err)
	}
}
