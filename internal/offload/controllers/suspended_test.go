package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// TestASuspendedConsumerKeepsItsNamespaces: while its Tenant is drained or being deleted, a consumer keeps its remote namespaces, has no rights in them, and gets
// no further ones. When the Tenant is active again, the rights return.
func TestASuspendedConsumerKeepsItsNamespaces(t *testing.T) {
	const tenantNamespace = "liqo-tenant-rome"
	m := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: "milan", Labels: map[string]string{api.LabelReplicated: api.True, api.LabelOriginID: "rome"}},
		Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"shop": "shop-rome"}},
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: "rome"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(tenant).Build()
	r := &namespaceMaps{Client: c, Options: Options{LiqoNamespace: "liqo"}}
	there := func(o client.Object) bool {
		t.Helper()
		err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return !apierrors.IsNotFound(err)
	}
	namespace := func(name string) bool {
		return there(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, step := range []struct {
		condition authv1beta1.TenantCondition
		desired   string
		rights    bool
	}{
		{authv1beta1.TenantActive, "", true},
		{authv1beta1.TenantDrained, "bank", false},
		{authv1beta1.TenantDrained, "bank", false},
		{authv1beta1.TenantActive, "bank", true},
	} {
		tenant.Spec.TenantCondition = step.condition
		if err := c.Update(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		if step.desired != "" {
			m.Spec.DesiredMapping[step.desired] = step.desired + "-rome"
		}
		if err := r.sync(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if !namespace("shop-rome") {
			t.Fatalf("%s: the namespace is gone", step.condition)
		}
		if got := there(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: tenantNamespace}}); got != step.rights {
			t.Errorf("%s: the rights exist: %t", step.condition, got)
		}
		if got := namespace("bank-rome"); step.desired != "" && got != step.rights {
			t.Errorf("%s: the new namespace exists: %t", step.condition, got)
		}
	}
}
