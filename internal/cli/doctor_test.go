package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
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
			"      cure: in cluster turin: liqoctl activate tenant rome",
		"access: weak-node may not do in cluster turin: create shadowpods in namespace shop-rome",
		"access: the API server of turin does not answer as lost at https://turin: ", "127.0.0.1:1: connect: connection refused",
		"access: the API server of turin does not answer as broken at https://turin: its kubeconfig, Secret tenant-of-turin/kubeconfig-broken, can not be used: ",
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
