package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/apitest"
)

// TestTenantQuotaIsCountedAtOnce: the quota status has the usage of each kind before the consumer gets permissions, because the API server rejects
// every object until then. Figures of Kubernetes stay.
func TestTenantQuotaIsCountedAtOnce(t *testing.T) {
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
	present := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "milan"}}
	elsewhere := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-naples", Name: "milan"}}
	const slices, renews = "count/resourceslices.authentication.liqo.io", "count/renews.authentication.liqo.io"
	for name, counted := range map[string]corev1.ResourceList{
		"by nobody": nil, "of the kinds that it knew": {renews: resource.MustParse("7")},
	} {
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(tenant, present, elsewhere).WithStatusSubresource(&corev1.ResourceQuota{}).Build()
		r := &tenants{providerSide: providerSide{client: c, own: "milan"}}
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: peering.TenantQuota}}
		if counted != nil { // Kubernetes was first
			if err := r.ensureQuota(t.Context(), tenant, quota); err != nil {
				t.Fatal(err)
			}
			quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, counted
			if err := c.Status().Update(t.Context(), quota); err != nil {
				t.Fatal(err)
			}
		}
		var version string
		for range 2 { // the second time nothing is left to do
			if err := r.limitObjects(t.Context(), tenant); err != nil {
				t.Fatal(err)
			}
			version = quota.ResourceVersion
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil {
				t.Fatal(err)
			}
		}
		if version != quota.ResourceVersion {
			t.Errorf("counted %s: a second pass writes the quota again", name)
		}
		for key := range peering.TenantObjects() {
			want := int64(0)
			switch {
			case key == slices:
				want = 1
			case key == renews && counted != nil:
				want = 7
			}
			used, known := quota.Status.Used[corev1.ResourceName(key)]
			if hard := quota.Status.Hard[corev1.ResourceName(key)]; !known || used.Value() != want || hard.IsZero() {
				t.Errorf("counted %s: %s is %v (known: %t), want %d; hard %v", name, key, used.Value(), known, want, hard.Value())
			}
		}
	}
}

// TestBindingsComeAfterTheQuota: whichever write fails, a consumer has rights in its tenant namespace only while the namespace has its quota, with the usage of each
// kind that the consumer may create. So nothing is admitted before the quota.
func TestBindingsComeAfterTheQuota(t *testing.T) {
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", UID: "u"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
	local, _ := bindings(tenant)
	bounded := func(ctx context.Context, c client.Client) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(local), &rbacv1.RoleBinding{}); err != nil {
			return client.IgnoreNotFound(err)
		}
		quota := &corev1.ResourceQuota{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: tenant.Namespace, Name: peering.TenantQuota}, quota); err != nil {
			return err
		}
		for name, most := range peering.TenantObjects() {
			hard := quota.Spec.Hard[corev1.ResourceName(name)]
			if _, known := quota.Status.Used[corev1.ResourceName(name)]; !known || hard.Value() != most {
				return fmt.Errorf("%s of the quota is %+v", name, quota)
			}
		}
		return nil
	}
	for fault := 0; ; fault++ {
		writes := 0
		after := func(ctx context.Context, c client.Client, write func() error) error {
			if writes++; writes == fault {
				return errors.New("the API server is away")
			}
			if err := write(); err != nil {
				return err
			}
			if err := bounded(ctx, c); err != nil {
				t.Errorf("fault %d: after write %d the consumer has rights, and %v", fault, writes, err)
			}
			return nil
		}
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(tenant.DeepCopy()).WithStatusSubresource(&corev1.ResourceQuota{}).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return after(ctx, c, func() error { return c.Create(ctx, o, opts...) })
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
				return after(ctx, c, func() error { return c.Patch(ctx, o, patch, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, _ string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				return after(ctx, c, func() error { return c.Status().Patch(ctx, o, patch, opts...) })
			},
		}).Build()
		r := &tenants{providerSide: providerSide{client: c, own: "milan"}}
		failed := false
		for range 3 { // a fault, a retry, and a pass with nothing to do
			failed = r.bind(t.Context(), tenant) != nil || failed
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(local), &rbacv1.RoleBinding{}); err != nil {
			t.Errorf("fault %d: the consumer has no rights in the end: %v", fault, err)
		}
		if fault > 0 && !failed {
			if fault < 5 {
				t.Errorf("only %d writes were seen", fault-1)
			}
			return
		}
	}
}

// TestTenantNamespacesAreBoundedOnAPIServer: a consumer creates objects of each kind that it may create until the API server rejects one. Nothing
// counts quotas here, so the test reports the usage, as kube-controller-manager does.
func TestTenantNamespacesAreBoundedOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: peering.RoleControlPlane}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{authv1beta1.GroupVersion.Group, networkingv1beta1.GroupVersion.Group, offloadingv1beta1.GroupVersion.Group},
			Resources: []string{"resourceslices", "renews", "networkrequests", "namespacemaps"}, Verbs: []string{"create"}},
	}}
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant.Namespace}}, role, tenant} {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	r := &tenants{providerSide: providerSide{client: admin, own: "milan"}}
	for range 2 { // the second time nothing is left to do
		if err := r.bind(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
	}
	quota := &corev1.ResourceQuota{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: tenant.Namespace, Name: peering.TenantQuota}, quota); err != nil {
		t.Fatal(err)
	}
	if !metav1.IsControlledBy(quota, tenant) {
		t.Error("the quota outlives the Tenant")
	}
	asRome := rest.CopyConfig(config)
	asRome.Impersonate = rest.ImpersonationConfig{UserName: peering.ControlPlaneSubject("rome").User}
	rome := apitest.Client(t, asRome)
	// Kubernetes has not counted yet.
	apitest.Eventually(t, 10*time.Second, "the first object to be accepted", func() error {
		return rome.Create(t.Context(), &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "first"}})
	})
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil {
		t.Fatal(err)
	}
	quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{}
	for name := range quota.Spec.Hard {
		used := quota.Spec.Hard[name]
		used.Sub(resource.MustParse("1"))
		quota.Status.Used[name] = used
	}
	if err := admin.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	for name, object := range map[string]func() client.Object{
		"resourceslices":  func() client.Object { return &authv1beta1.ResourceSlice{} },
		"renews":          func() client.Object { return &authv1beta1.Renew{} },
		"namespacemaps":   func() client.Object { return &offloadingv1beta1.NamespaceMap{} },
		"networkrequests": func() client.Object { return &networkingv1beta1.NetworkRequest{} },
	} {
		made := 0
		apitest.Eventually(t, 30*time.Second, "the API server to refuse "+name, func() error {
			o := object()
			o.SetNamespace(tenant.Namespace)
			o.SetName(fmt.Sprintf("flood-%d", made))
			err := rome.Create(t.Context(), o)
			switch {
			case err == nil: // there was room for one
				made++
				return fmt.Errorf("%d were accepted", made)
			case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: "+peering.TenantQuota):
				return nil
			}
			return err
		})
	}
}
