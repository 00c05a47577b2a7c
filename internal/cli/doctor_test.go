package cli

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// TestDoctorOnAPIServer asks as the identities that a provider granted: one that may do all, one that may do nothing, one that leads nowhere.
func TestDoctorOnAPIServer(t *testing.T) {
	kubeconfig, c := server(t)
	create(t, c, tenancy("turin")...)
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	identity := func(name string, of authv1beta1.IdentityType, change func()) {
		t.Helper()
		change()
		data, err := clientcmd.Write(*config)
		if err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{api.LabelRemoteClusterID: "turin"}
		object := &authv1beta1.Identity{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-turin", Name: name, Labels: labels},
			Spec:       authv1beta1.IdentitySpec{ClusterID: "turin", Type: of, Namespace: "there", AuthParams: authv1beta1.AuthParams{APIServer: "https://turin"}},
		}
		create(t, c, object, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-turin", Name: "kubeconfig-" + name}, Data: map[string][]byte{authv1beta1.KubeconfigSecretKey: data},
		})
		object.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "kubeconfig-" + name}
		if err := c.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	mapping := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-turin", Name: "turin", Labels: map[string]string{api.LabelRemoteID: "turin"}}}
	create(t, c, mapping)
	mapping.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}}
	if err := c.Status().Update(t.Context(), mapping); err != nil {
		t.Fatal(err)
	}
	identity("mighty", authv1beta1.IdentityControlPlane, func() {})
	_, out, errOut := run(t, "doctor", "--verbose", "--kubeconfig", kubeconfig)
	if !strings.Contains(out, "access: turin answers mighty in ") {
		t.Errorf("says\n%s%s", out, errOut)
	}
	identity("weak", authv1beta1.IdentityControlPlane, func() {
		for _, user := range config.AuthInfos {
			user.Impersonate, user.ImpersonateGroups = "nobody", []string{"system:authenticated"}
		}
	})
	identity("weak-node", authv1beta1.IdentityResourceSlice, func() {})
	identity("lost", authv1beta1.IdentityResourceSlice, func() {
		for _, cluster := range config.Clusters {
			cluster.Server = "https://127.0.0.1:1"
		}
	})
	identity("broken", authv1beta1.IdentityResourceSlice, func() { config.CurrentContext = "none" })
	code, out, errOut := run(t, "doctor", "--verbose", "--kubeconfig", kubeconfig)
	for _, want := range []string{
		"access: weak may not do in cluster turin: create resourceslices in namespace there, create renews in namespace there, create namespacemaps in namespace there\n" +
			"          cure: in cluster turin: liqoctl activate tenant rome",
		"access: weak-node may not do in cluster turin: create shadowpods in namespace shop-rome",
		"access: the API server of turin does not answer as lost at https://turin: ", "127.0.0.1:1: connect: connection refused",
		"access: the API server of turin was not asked as broken at https://turin: its kubeconfig, Secret tenant-of-turin/kubeconfig-broken, can not be used: ",
		"identities: Identity weak in namespace tenant-of-turin: its certificate can not be read: ",
	} {
		if !strings.Contains(out, want) || code != 1 {
			t.Errorf("no %q in\n%s%s", want, out, errOut)
		}
	}
	// What is not there any more when it is looked for keeps nothing else from being looked at.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-turin", Name: "kubeconfig-mighty"}}
	if err := c.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := run(t, "doctor", "--kubeconfig", kubeconfig); !strings.Contains(out, client.ObjectKeyFromObject(secret).String()+", can not be read") || !strings.Contains(out, "weak may not") {
		t.Errorf("says\n%s", out)
	}
}

// TestBrokenStatesOnAPIServer makes faults in the objects that the commands read, and undoes each: doctor names the cause and the cure first, and info and
// status say the same, in words that do not call it healthy.
func TestBrokenStatesOnAPIServer(t *testing.T) {
	kubeconfig, c := server(t)
	labels := map[string]string{api.LabelRemoteClusterID: "turin", api.LabelRemoteID: "turin"}
	foreign := &corev1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "turin"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "turin"},
		Status: corev1beta1.ForeignClusterStatus{
			Role: corev1beta1.RoleConsumerAndProvider, ObservedGeneration: 1, TenantNamespace: corev1beta1.TenantNamespaces{Local: "tenant-of-turin"},
			Conditions: []corev1beta1.Condition{{Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusEstablished}},
			Modules: corev1beta1.Modules{Networking: corev1beta1.Module{Enabled: true, Conditions: []corev1beta1.Condition{
				{Type: corev1beta1.NetworkConnectionStatus, Status: corev1beta1.StatusEstablished},
			}}, Authentication: corev1beta1.Module{Enabled: true, Conditions: []corev1beta1.Condition{{Type: corev1beta1.AuthTenantStatus, Status: corev1beta1.StatusReady}}}},
		},
	}
	tenant := &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-turin", Name: "turin", Labels: labels},
		Spec:       authv1beta1.TenantSpec{ClusterID: "turin", AuthzPolicy: authv1beta1.TolerateNoHandshake},
	}
	connection := &networkingv1beta1.Connection{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-turin", Name: "gw-turin", Labels: labels}, Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionServer},
	}
	create(t, c, tenancy("turin")[0], foreign, tenant, connection)
	change := func(object client.Object, to func()) {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		to()
		status := object.DeepCopyObject().(client.Object)
		if err := c.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		status.SetResourceVersion(object.GetResourceVersion())
		if err := c.Status().Update(t.Context(), status); err != nil {
			t.Fatal(err)
		}
	}
	manager := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: deploymentName}}
	one := int32(1)
	runs := func() {
		manager.Spec.Replicas = &one
		manager.Status = appsv1.DeploymentStatus{ObservedGeneration: manager.Generation + 1, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	}
	change(manager, runs)
	change(connection, func() { connection.Status.Value = networkingv1beta1.Connected })
	lines := func(command string) (int, string) {
		code, out, errOut := run(t, append(strings.Fields(command), "--kubeconfig", kubeconfig)...)
		return code, out + errOut
	}
	if _, out := lines("doctor"); strings.Contains(out, "✖") {
		t.Fatalf("before the first fault:\n%s", out)
	}
	if _, out := lines("info"); !strings.Contains(out, "✔ Liqo is healthy") || strings.Contains(out, "✖") {
		t.Fatalf("before the first fault:\n%s", out)
	}
	none := int32(0)
	condition := &foreign.Status.Conditions
	for _, fault := range []struct {
		name       string
		begin, end func()
		first      string // the first problem that doctor prints
		cure       string
	}{
		{"no controller manager", func() {
			change(manager, func() { manager.Spec.Replicas, manager.Status = &none, appsv1.DeploymentStatus{} })
		}, func() { change(manager, runs) }, "-n liqo deployment/liqo-controller-manager is scaled to 0 replicas", "kubectl -n liqo scale --replicas=1 deployment/liqo-controller-manager"},
		{"a tenant is cordoned", func() { change(tenant, func() { tenant.Spec.TenantCondition = authv1beta1.TenantCordoned }) },
			func() { change(tenant, func() { tenant.Spec.TenantCondition = authv1beta1.TenantActive }) }, "Tenant turin in namespace tenant-of-turin is cordoned", "liqoctl uncordon tenant turin"},
		{"a tenant is drained", func() { change(tenant, func() { tenant.Spec.TenantCondition = authv1beta1.TenantDrained }) },
			func() { change(tenant, func() { tenant.Spec.TenantCondition = authv1beta1.TenantActive }) }, "Tenant turin in namespace tenant-of-turin is drained", "liqoctl activate tenant turin"},
		{"partition", func() {
			change(foreign, func() {
				(*condition)[0].Status, (*condition)[0].Message = corev1beta1.StatusError, "i/o timeout"
				foreign.Status.Modules.Networking.Conditions[0].Status = corev1beta1.StatusError
			})
			change(connection, func() { connection.Status.Value = networkingv1beta1.ConnectionError })
		}, func() {
			change(foreign, func() {
				(*condition)[0].Status = corev1beta1.StatusEstablished
				foreign.Status.Modules.Networking.Conditions[0].Status = corev1beta1.StatusEstablished
			})
			change(connection, func() { connection.Status.Value = networkingv1beta1.Connected })
		}, "cluster turin is unreachable from rome: neither its API server nor the tunnel responds", "liqoctl force unpeer turin"},
		{"the tunnel", func() { change(connection, func() { connection.Status.Value = networkingv1beta1.ConnectionError }) },
			func() { change(connection, func() { connection.Status.Value = networkingv1beta1.Connected }) }, "Connection gw-turin in namespace tenant-of-turin is \"Error\"", "liqoctl network connect"},
	} {
		t.Run(fault.name, func(t *testing.T) {
			fault.begin()
			_, out := lines("doctor")
			problem := out[max(strings.IndexAny(out, "✖!"), 0):]
			first, rest, _ := strings.Cut(problem, "\n")
			cure, _, _ := strings.Cut(rest, "\n")
			if !strings.Contains(first, fault.first) || !strings.Contains(cure, fault.cure) {
				t.Errorf("doctor says first\n%s\n%s\nwant %q and %q in\n%s", first, cure, fault.first, fault.cure, out)
			}
			for _, command := range []string{"info", "status"} {
				code, out := lines(command)
				if joined := strings.Join(strings.Fields(strings.ReplaceAll(out, "│", " ")), " "); code != 0 || !strings.Contains(joined, fault.first) || !strings.Contains(joined, fault.cure) {
					t.Errorf("%s, code %d, does not say %q and %q:\n%s", command, code, fault.first, fault.cure, out)
				}
			}
			fault.end()
			if _, out := lines("doctor"); strings.Contains(out, "✖") {
				t.Errorf("after the cure doctor says\n%s", out)
			}
		})
	}
	// Undone on both sides.
	change(foreign, func() {
		foreign.Status = corev1beta1.ForeignClusterStatus{Role: corev1beta1.RoleUnknown, ObservedGeneration: 1, TenantNamespace: foreign.Status.TenantNamespace}
	})
	for command, want := range map[string]string{"doctor": "✔ former peer turin", "info": "Former peers: turin", "info peer turin": "Former peer: the peering was undone", "status peer": "Former peer: the peering was undone"} {
		if _, out := lines(command); !strings.Contains(out, want) || strings.Contains(out, "Role: ") {
			t.Errorf("%s: no %q in\n%s", command, want, out)
		}
	}
}
