package webhook

import (
	"errors"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/test/apitest"
)

// TestProtectedNamespacesOnAPIServer tries, as a user who may write NamespaceOffloadings and NamespaceMaps everywhere, to offload protected
// namespaces. The policies of the chart decide like the controllers, with the same messages.
func TestProtectedNamespacesOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	vals := values()
	patterns := []string{"vault", "*-secrets"}
	vals["offloading"] = map[string]any{"protectedNamespaces": []any{patterns[0], patterns[1]}}
	// This namespace was offloaded before it became protected.
	namespace(t, admin, "vault", nil)
	old := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "offloading", Finalizers: []string{"example.org/held"}}}
	oldMap := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "milan"},
		Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"vault": "vault-rome"}},
	}
	for _, object := range []client.Object{
		old, oldMap, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "offloader"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{offloadingv1beta1.GroupVersion.Group}, Resources: []string{"namespaceoffloadings", "namespacemaps"}, Verbs: []string{"*"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "offloader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "offloader"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "ada"}},
		},
	} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range chart(t, vals, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding") {
		if strings.HasPrefix(object.GetName(), "liqo-protected-") {
			if err := admin.Create(t.Context(), object); err != nil {
				t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
	}
	user := rest.CopyConfig(config)
	user.Impersonate = rest.ImpersonationConfig{UserName: "ada", Groups: []string{"system:authenticated"}}
	ada := apitest.Client(t, user)

	namespaces := map[string]map[string]string{
		"liqo": nil, "liqo-tenant-milan": nil, "turin": {api.LabelTenantNamespace: api.True}, "kube-extra": nil, "liqo-storage": nil, "our-secrets": nil,
		"demo": nil, "liqo-demo": {api.LabelTenantNamespace: "false"}, "vaults": nil,
	}
	offloading := func(namespace string) *offloadingv1beta1.NamespaceOffloading {
		return &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "offloading"}}
	}
	asked := func(name string, labels map[string]string, namespaces ...string) *offloadingv1beta1.NamespaceMap {
		m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, Labels: labels}}
		m.Spec.DesiredMapping = map[string]string{}
		for _, n := range namespaces {
			m.Spec.DesiredMapping[n] = n + "-rome"
		}
		return m
	}
	for name, labels := range namespaces {
		namespace(t, admin, name, labels)
	}
	apitest.InForce(t, admin)
	apitest.Eventually(t, within, "the policies to be in force", func() error {
		for _, object := range []client.Object{offloading("kube-system"), asked("probe", nil, "kube-system")} {
			if err := ada.Create(t.Context(), object, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "can not be offloaded") {
				return errors.Join(errors.New("not yet"), err)
			}
		}
		return nil
	})
	policy := offload.ProtectedNamespaces{LiqoNamespace: "liqo", Patterns: patterns}
	check := func(what, name string, labels map[string]string, err error) {
		t.Helper()
		why := policy.Why(name, labels)
		if (why == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), offload.ProtectedMessage(name, why)) {
			t.Errorf("%s %s: %v, want %q", what, name, err, why)
		}
	}
	for name, labels := range namespaces {
		check("NamespaceOffloading", name, labels, ada.Create(t.Context(), offloading(name)))
		check("NamespaceMap", name, nil, ada.Create(t.Context(), asked("new-"+name, nil, "fine", name))) // a NamespaceMap has only names, so labels do not protect here
		m := asked("later-"+name, nil, "fine")
		if err := ada.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		m.Spec.DesiredMapping[name] = name + "-rome"
		check("NamespaceMap, later", name, nil, ada.Update(t.Context(), m))
	}
	// A replicated NamespaceMap names namespaces of another cluster, so they are not checked.
	if err := ada.Create(t.Context(), asked("copy", map[string]string{api.LabelReplicated: api.True}, "kube-system")); err != nil {
		t.Errorf("a copy of another cluster's map: %v", err)
	}
	// Entries of an existing map can be removed, but not changed.
	old.Spec.PodOffloadingStrategy = offloadingv1beta1.PodsRemote
	if err := ada.Update(t.Context(), old); err == nil {
		t.Error("the NamespaceOffloading of a protected namespace was changed")
	}
	oldMap.Spec.DesiredMapping["demo"] = "demo-rome"
	if err := ada.Update(t.Context(), oldMap); err != nil {
		t.Errorf("an earlier map: %v", err)
	}
	if err := errors.Join(ada.Get(t.Context(), client.ObjectKeyFromObject(old), old), ada.Delete(t.Context(), old)); err != nil {
		t.Fatal(err)
	}
	if err := ada.Get(t.Context(), client.ObjectKeyFromObject(old), old); err != nil {
		t.Fatal(err)
	}
	controllerutil.RemoveFinalizer(old, "example.org/held")
	if err := ada.Update(t.Context(), old); err != nil {
		t.Errorf("the NamespaceOffloading of a protected namespace can not be deleted: %v", err)
	}
}
