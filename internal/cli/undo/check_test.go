package undo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
)

// TestUnpeerChecksTheDataInTheProviderIfItMay: data in the provider that this cluster does not release stops unpeer. A user without the right to read it, for example a
// peering user, sees what was not checked, and unpeer continues: the Tenant keeps the data. Another error stops unpeer.
func TestUnpeerChecksTheDataInTheProviderIfItMay(t *testing.T) {
	const tenants = "liqo-tenant-rome"
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("it is a peering user"))
	for name, row := range map[string]struct {
		denied map[string]error // by the kind that is read
		want   string           // part of the error, empty if the check passes
		says   bool             // the user learns what was not checked
	}{
		"an administrator":                          {nil, "PersistentVolumeClaim data in namespace shop-rome", false},
		"no right to list claims":                   {map[string]error{"*v1.PersistentVolumeClaimList": forbidden}, "", true},
		"no right to list namespaces":               {map[string]error{"*v1.NamespaceList": forbidden}, "", true},
		"no right to read the Tenant":               {map[string]error{"*v1beta1.Tenant": forbidden}, "", true},
		"a provider that does not list its claims":  {map[string]error{"*v1.PersistentVolumeClaimList": errors.New("no response")}, "no response", false},
		"a provider that does not show its Tenants": {map[string]error{"*v1beta1.Tenant": errors.New("no response")}, "reading Tenant rome in namespace " + tenants, false},
	} {
		denies := func(obj any) error { return row.denied[fmt.Sprintf("%T", obj)] }
		there := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenants, Labels: map[string]string{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: "rome"}}},
			&authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: tenants, Name: "rome"}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome", Annotations: map[string]string{offloadingv1beta1.AnnotationManagedByNamespaceMap: tenants + "/rome"}}},
			&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "data"}},
		).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
				if err := denies(obj); err != nil {
					return err
				}
				return c.Get(ctx, key, obj, options...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if err := denies(list); err != nil {
					return err
				}
				return c.List(ctx, list, options...)
			},
		}).Build()
		said := &strings.Builder{}
		err := CheckBoth(t.Context(), &session.Pair{
			Local:  &session.Cluster{ID: "rome", WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()},
			Remote: &session.Cluster{ID: "milan", WithWatch: there, Console: console.New(said, said, false)},
		}, "")
		if (err != nil) != (row.want != "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: error %v, want %q", name, err, row.want)
		}
		const unchecked = "Tenant rome in namespace " + tenants + " names the claims and stays until its administrator decides about them"
		if strings.Contains(said.String(), unchecked) != row.says {
			t.Errorf("%s: %q", name, said)
		}
	}
}
