package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/apitest"
	"liqo.io/liqo/test/clitest"
)

// TestNamespaceAdministratorOffloadsOnAPIServer: with the roles of Kubernetes and the chart, the administrator of a namespace offloads it with
// liqoctl and its other users see that. None of them can use another namespace, a tenant namespace or the Secrets there.
func TestNamespaceAdministratorOffloadsOnAPIServer(t *testing.T) {
	t.Parallel()
	kubeconfig, c := server(t)
	clitest.Create(t, c,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bank"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-milan", Labels: map[string]string{api.LabelTenantNamespace: api.True}}},
		&offloadingv1beta1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"},
			Spec:       offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan", KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "x"}},
		})
	// Nothing aggregates roles here: what makes up each role is bound one by one.
	ours := namespaceRoles(t, c)
	parts := map[string][]string{}
	for i, role := range []string{"view", "edit", "admin"} {
		for _, lower := range []string{"view", "edit", "admin"}[:i+1] {
			parts[role] = append(append(parts[role], "system:aggregate-to-"+lower), ours[lower]...)
		}
	}
	for role, names := range parts {
		for _, name := range names {
			clitest.Create(t, c, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: role + "-" + strings.ReplaceAll(name, ":", "-")},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role}},
			})
		}
	}
	apitest.InForce(t, c)
	as := map[string]string{}
	for role := range parts {
		as[role] = impersonating(t, kubeconfig, role)
		may := func(want bool, verb, group, resource, namespace string) {
			t.Helper()
			if got := allowed(t, as[role], verb, group, resource, namespace); got != want {
				t.Errorf("%s may %s %s in namespace %q: %v", role, verb, resource, namespace, got)
			}
		}
		for _, verb := range []string{"create", "update", "patch", "delete"} {
			may(role == "admin", verb, "offloading.liqo.io", "namespaceoffloadings", "shop")
			may(false, verb, "offloading.liqo.io", "namespaceoffloadings/status", "shop")
			may(false, verb, "offloading.liqo.io", "namespaceoffloadings", "bank")
			for _, resource := range []string{"shadowpods", "shadowendpointslices", "namespacemaps", "virtualnodes", "quotas"} {
				may(false, verb, "offloading.liqo.io", resource, "shop")
			}
			may(false, verb, "ipam.liqo.io", "ips", "shop")
		}
		may(true, "get", "offloading.liqo.io", "namespaceoffloadings", "shop")
		may(true, "list", "offloading.liqo.io", "shadowpods", "shop")
		may(false, "get", "", "secrets", "liqo-tenant-milan")
		may(false, "get", "", "configmaps", "liqo")
		may(false, "list", "authentication.liqo.io", "resourceslices", "liqo-tenant-milan")
		may(false, "list", "offloading.liqo.io", "namespaceoffloadings", "")
	}

	code, out, errOut := run(t, "offload", "namespace", "shop", "--timeout", "2s", "--kubeconfig", as["admin"])
	object := &offloadingv1beta1.NamespaceOffloading{}
	key := client.ObjectKey{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName}
	if err := c.Get(t.Context(), key, object); err != nil || !strings.Contains(errOut, "the controller manager has not") {
		t.Fatalf("%v: code %d, %s%s", err, code, out, errOut)
	}
	object.Status.RemoteNamespacesConditions = map[string][]offloadingv1beta1.RemoteNamespaceCondition{"milan": {{
		Type: offloadingv1beta1.RemoteNamespaceRequired, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
	}}}
	if err := c.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		// Which clusters it leaves out takes a right on all of them.
		"offload namespace shop -l region=north --kubeconfig " + as["admin"]:                 "It may leave out a cluster where the namespace is (shop from cluster milan)",
		"offload namespace bank --kubeconfig " + as["admin"]:                                 `namespaces "bank" is forbidden`,
		"offload namespace shop -l a=b --kubeconfig " + as["edit"]:                           "It may leave out",
		"offload namespace shop --pod-offloading-strategy Remote --kubeconfig " + as["edit"]: `cannot patch resource "namespaceoffloadings"`,
		"unoffload namespace shop --skip-confirm --kubeconfig " + as["view"]:                 `cannot delete resource "namespaceoffloadings"`,
	} {
		if code, out, errOut := run(t, strings.Fields(command)...); code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%s: code %d, %s%s, want %q", command, code, out, errOut, want)
		}
	}
	if code, out, errOut := run(t, "unoffload", "namespace", "shop", "--skip-confirm", "--kubeconfig", as["admin"]); code != 0 {
		t.Errorf("code %d, %s%s", code, out, errOut)
	}
}

// namespaceRoles creates the ClusterRoles that the chart adds to those of Kubernetes and returns their names by the role that they are added to.
func namespaceRoles(t *testing.T, c client.Client) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for document := range chartDocuments(t, "rome") {
		role := &rbacv1.ClusterRole{}
		if err := yaml.Unmarshal([]byte(document), role); err != nil {
			continue // of another kind
		}
		for _, to := range []string{"view", "edit", "admin"} {
			if role.Kind == "ClusterRole" && role.Labels["rbac.authorization.k8s.io/aggregate-to-"+to] == api.True {
				clitest.Create(t, c, role)
				out[to] = append(out[to], role.Name)
			}
		}
	}
	return out
}

// impersonating writes a kubeconfig that acts as a user.
func impersonating(t *testing.T, kubeconfig, user string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, auth := range config.AuthInfos {
		auth.Impersonate, auth.ImpersonateGroups = user, []string{"system:authenticated"}
	}
	path := filepath.Join(t.TempDir(), user)
	data, err := clientcmd.Write(*config)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// allowed is kubectl auth can-i.
func allowed(t *testing.T, kubeconfig, verb, group, resource, namespace string) bool {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	resource, sub, _ := strings.Cut(resource, "/")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: namespace,
	}}}
	if err := apitest.Client(t, config).Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
