package apitest

import (
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
