package apitest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Known waits until a cache has an object in the version of obj or a later one. The caches of two kinds are not in step. Without Known, a controller may decide by the
// new version of one object and the former version of another one.
func Known(t testing.TB, cached client.Reader, obj client.Object) {
	t.Helper()
	Eventually(t, time.Minute, fmt.Sprintf("the cache to have %T %s", obj, client.ObjectKeyFromObject(obj)), func() error {
		seen := obj.DeepCopyObject().(client.Object)
		if err := cached.Get(t.Context(), client.ObjectKeyFromObject(obj), seen); err != nil {
			return err
		}
		age, err := resourceversion.CompareResourceVersion(seen.GetResourceVersion(), obj.GetResourceVersion())
		if err != nil || age < 0 {
			return errors.Join(err, fmt.Errorf("it has version %s, want %s", seen.GetResourceVersion(), obj.GetResourceVersion()))
		}
		return nil
	})
}

// Gone waits until an API server, and then the caches that are not nil, do not have an object any more. Without the caches, a controller could still decide by the object
// after the test went on.
func Gone(t testing.TB, within time.Duration, obj client.Object, server client.Reader, caches ...client.Reader) {
	t.Helper()
	key := client.ObjectKeyFromObject(obj)
	Eventually(t, within, fmt.Sprintf("%T %s to be gone", obj, key), func() error {
		for i, reader := range append([]client.Reader{server}, caches...) {
			if reader == nil {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), within/4) // a cache without the kind waits for its first list
			err := reader.Get(ctx, key, obj)
			cancel()
			where := "the API server"
			if i > 0 {
				where = "a cache"
			}
			switch {
			case err == nil:
				return fmt.Errorf("%s has it, deleted at %v, with finalizers %v", where, obj.GetDeletionTimestamp(), obj.GetFinalizers())
			case !apierrors.IsNotFound(err):
				return fmt.Errorf("reading it from %s: %w", where, err)
			}
		}
		return nil
	})
}

// InForce waits until the API server applies all policies and rights that exist now. It needs the client of an administrator.
//
// An API server reads ValidatingAdmissionPolicies, their bindings and the objects of RBAC from caches, and compiles policies at most once a second. So for a moment
// it may apply the first objects of an installation without the last ones. Each cache gets its objects in the order in which they were written. So InForce writes one
// more object of each kind, and waits until these apply.
func InForce(t testing.TB, admin client.Client) {
	t.Helper()
	name := "in-force-" + strings.ToLower(rand.Text())
	everywhere, here := metav1.ObjectMeta{Name: name}, metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
	probe := &corev1.ConfigMap{ObjectMeta: here}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{name}, Verbs: []string{"get"}}}
	user := func(of string) []rbacv1.Subject {
		return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name + "-" + of}}
	}
	objects := []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: everywhere, Rules: rules},
		&rbacv1.ClusterRoleBinding{ObjectMeta: everywhere, Subjects: user("everywhere"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}},
		&rbacv1.Role{ObjectMeta: here, Rules: rules},
		&rbacv1.RoleBinding{ObjectMeta: here, Subjects: user("here"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}},
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: everywhere, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "object.metadata.name != '" + name + "'"}},
		}},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: everywhere, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}},
	}
	for _, object := range objects {
		must(t, admin.Create(t.Context(), object))
	}
	Eventually(t, time.Minute, "the policies and rights to be in force", func() error {
		for _, of := range []string{"everywhere", "here"} {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               name + "-" + of,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: here.Namespace, Verb: "get", Resource: "configmaps", Name: name},
			}}
			if err := admin.Create(t.Context(), review); err != nil || !review.Status.Allowed {
				return errors.Join(err, fmt.Errorf("the user %s has no rights yet", review.Spec.User))
			}
		}
		if err := admin.Create(t.Context(), probe.DeepCopy(), client.DryRunAll); err == nil || !strings.Contains(err.Error(), name+"' with binding") {
			return errors.Join(errors.New("the policy is not in force yet"), err)
		}
		return nil
	})
	for _, object := range objects {
		must(t, admin.Delete(t.Context(), object))
	}
}
