package apitest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestGone: an object is gone when neither the API server nor a cache has it. A cache that does not answer in time, and one that is nil, block nothing.
func TestGone(t *testing.T) {
	var asked []string
	reader := func(name string, has int, blocks bool) client.Reader {
		return interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
				asked = append(asked, name)
				if has--; has < 0 {
					return apierrors.NewNotFound(corev1.Resource("configmaps"), key.Name)
				}
				if blocks {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			},
		})
	}
	Gone(t, time.Second, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}, reader("server", 1, false), nil, reader("cache", 1, true))
	if want := []string{"server", "server", "cache", "server", "cache"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// TestPoliciesAreInForce: InForce waits until its own policy, which it creates last, refuses an object. Rights that apply before do not suffice, nor does another error.
// It leaves nothing.
func TestPoliciesAreInForce(t *testing.T) {
	tried, policy := 0, ""
	admin := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			switch o := object.(type) {
			case *authorizationv1.SubjectAccessReview:
				o.Status.Allowed = true
				return nil
			case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
				policy = o.Name
			case *corev1.ConfigMap:
				if all := (&client.CreateOptions{}).ApplyOptions(opts); len(all.DryRun) == 0 {
					t.Error("the object is created in earnest")
				}
				switch tried++; tried {
				case 1: // the API server does not know the policy yet
					return nil
				case 2:
					return apierrors.NewServiceUnavailable("starting")
				case 3:
					return fmt.Errorf("ValidatingAdmissionPolicy 'other' with binding 'other' denied request")
				default:
					return fmt.Errorf("ValidatingAdmissionPolicy '%s' with binding '%[1]s' denied request", o.Name)
				}
			}
			return c.Create(ctx, object, opts...)
		},
	}).Build()
	InForce(t, admin)
	if tried != 4 || policy == "" {
		t.Errorf("it returned after %d requests, want 4; policy %q", tried, policy)
	}
	for _, list := range []client.ObjectList{
		&admissionregistrationv1.ValidatingAdmissionPolicyList{}, &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleList{},
	} {
		must(t, admin.List(t.Context(), list))
		if n := meta.LenList(list); n > 0 {
			t.Errorf("%T: %d objects are left", list, n)
		}
	}
}

// TestRightsAreInForceOnAPIServer: rights that exist before InForce apply after it, and InForce leaves nothing.
func TestRightsAreInForceOnAPIServer(t *testing.T) {
	admin := Client(t, APIServer(t))
	const users = 20
	for i := range users {
		must(t, admin.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprint("user-", i)},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: fmt.Sprint("user-", i)}},
		}))
	}
	InForce(t, admin)
	for i := range users {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               fmt.Sprint("user-", i),
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: metav1.NamespaceDefault, Verb: "create", Resource: "secrets"},
		}}
		must(t, admin.Create(t.Context(), review))
		if !review.Status.Allowed {
			t.Errorf("%s has no rights", review.Spec.User)
		}
	}
	bindings := &rbacv1.RoleBindingList{}
	must(t, admin.List(t.Context(), bindings, client.InNamespace(metav1.NamespaceDefault)))
	if len(bindings.Items) != users {
		t.Errorf("%d RoleBindings, want %d", len(bindings.Items), users)
	}
}
