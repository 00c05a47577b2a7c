package controllers

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/apitest"
)

const peeringUser = "liqo-peer-user-rome-0123456789abcdef0123456789abcdef"

// TestTenantPolicyOnAPIServer tries, with the permissions of a peering user, to regain what the provider revoked.
func TestTenantPolicyOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	for _, obj := range []client.Object{
		chartObjects(t, "milan", "tenant-policy.yaml", "ValidatingAdmissionPolicy", func() *admissionregistrationv1.ValidatingAdmissionPolicy {
			return &admissionregistrationv1.ValidatingAdmissionPolicy{}
		})[0],
		chartObjects(t, "milan", "tenant-policy.yaml", "ValidatingAdmissionPolicyBinding", func() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
			return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		})[0],
		chartObjects(t, "milan", "peering-user-roles.yaml", "ClusterRole", func() *rbacv1.ClusterRole { return &rbacv1.ClusterRole{} })[0],
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-rome", Labels: map[string]string{api.LabelRemoteClusterID: "rome"}}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "user"}, RoleRef: clusterRole("liqo-peering-user"),
			Subjects: append(append(subjects(rbacv1.UserKind, peeringUser), subjects(rbacv1.UserKind, "rome")...), subjects(rbacv1.GroupKind, "rome")...),
		},
	} {
		if err := admin.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	user := rest.CopyConfig(config)
	// As the certificate says that liqoctl makes.
	user.Impersonate = rest.ImpersonationConfig{UserName: peeringUser, Groups: []string{peering.OrganizationControlPlane, "system:authenticated"}}
	rome := apitest.Client(t, user)
	tenant := func(change func(*authv1beta1.Tenant)) *authv1beta1.Tenant {
		tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
		if change != nil {
			change(tenant)
		}
		return tenant
	}
	active := func(t *authv1beta1.Tenant) { t.Spec.TenantCondition = authv1beta1.TenantActive }
	drained := func(t *authv1beta1.Tenant) { t.Spec.TenantCondition = authv1beta1.TenantDrained }
	cordoned := func(t *authv1beta1.Tenant) { t.Annotations = map[string]string{authv1beta1.AnnotationCordon: "true"} }
	vouched := func(t *authv1beta1.Tenant) { t.Spec.AuthzPolicy = authv1beta1.TolerateNoHandshake }
	other := func(t *authv1beta1.Tenant) { t.Spec.ClusterID = "turin" }
	consenting := func(t *authv1beta1.Tenant) {
		metav1.SetMetaDataAnnotation(&t.ObjectMeta, api.AnnotationDeleteVolumes, api.True)
	}
	withdrawn := func(t *authv1beta1.Tenant) { delete(t.Annotations, api.AnnotationDeleteVolumes) }
	claimed := func(t *authv1beta1.Tenant) {
		metav1.SetMetaDataAnnotation(&t.ObjectMeta, peering.AnnotationClaimedID, api.True)
	}
	proven := func(t *authv1beta1.Tenant) { delete(t.Annotations, peering.AnnotationClaimedID) }
	held := func(t *authv1beta1.Tenant) { t.Finalizers = []string{"rome.example/stay"} }
	proxy := func(t *authv1beta1.Tenant) { url := "https://proxy.example"; t.Spec.ProxyURL = &url }
	apitest.InForce(t, admin)
	apitest.Eventually(t, within, "the policy to be in force", func() error {
		if err := rome.Create(t.Context(), tenant(other), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "must be rome") {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	})
	check := func(what string, err error, says string) {
		t.Helper()
		if (says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", what, err, says)
		}
	}
	patch := func(c client.Client, change func(*authv1beta1.Tenant)) error {
		t.Helper()
		now := tenant(nil)
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil {
			t.Fatal(err)
		}
		before := now.DeepCopy()
		change(now)
		return c.Patch(t.Context(), now, client.MergeFrom(before))
	}
	check("drained from the beginning", rome.Create(t.Context(), tenant(drained)), "tenantCondition belongs to the provider")
	check("vouched for by itself", rome.Create(t.Context(), tenant(vouched)), "authzPolicy belongs to the provider")
	check("with the consent to delete the provider's volumes", rome.Create(t.Context(), tenant(consenting)), "liqo.io/delete-volumes belongs to the provider")
	check("with a finalizer", rome.Create(t.Context(), tenant(held)), "finalizers belong to the provider")
	check("a second one", rome.Create(t.Context(), tenant(func(t *authv1beta1.Tenant) { t.Name = "rome-2" })), "metadata.name must be rome")
	check("one of many", rome.Create(t.Context(), tenant(func(t *authv1beta1.Tenant) { t.Name, t.GenerateName = "", "rome" })), "metadata.name must be rome")
	check("its own", rome.Create(t.Context(), tenant(nil)), "")
	check("what is its", patch(rome, proxy), "")
	key := func(content string) func(*authv1beta1.Tenant) {
		return func(t *authv1beta1.Tenant) { t.Spec.PublicKey = []byte(content) }
	}
	check("its key", patch(rome, key("rome")), "")
	check("a certificate for its key", patch(rome, func(t *authv1beta1.Tenant) { t.Spec.CSR = []byte("another") }), "")
	const otherKey = "spec.publicKey is not the key with which cluster rome was peered: if the cluster has another key now, unpeer it first, and have an administrator of the provider run: " +
		"kubectl annotate namespace liqo-tenant-rome liqo.io/consumer-key-"
	check("the key of a thief", patch(rome, key("thief")), otherKey)
	check("no key", patch(rome, key("")), otherKey)
	check("another key by the provider", patch(admin, key("new")), "")
	check("vouching for itself", patch(rome, vouched), "authzPolicy belongs to the provider")
	check("the provider's drain", patch(admin, drained), "")
	check("undoing a drain", patch(rome, active), "tenantCondition belongs to the provider")
	check("undoing a drain by making it anew", rome.Delete(t.Context(), tenant(nil)), "removed by the provider")
	for who, identity := range map[string]rest.ImpersonationConfig{
		"by the user without its group": {UserName: "rome", Groups: []string{"system:authenticated"}},
		"by a virtual kubelet":          {UserName: "pool-a8a4c692b93b", Groups: []string{"rome", "system:authenticated"}},
	} {
		user.Impersonate = identity
		check("undoing a drain by making it anew, "+who, apitest.Client(t, user).Delete(t.Context(), tenant(nil), client.DryRunAll), "removed by the provider")
	}
	check("the provider's activation, and cordon", patch(admin, func(t *authv1beta1.Tenant) { active(t); cordoned(t) }), "")
	check("undoing a cordon", patch(rome, func(t *authv1beta1.Tenant) { t.Annotations = nil }), "liqo.io/cordon belongs to the provider")
	check("undoing a cordon by making it anew", rome.Delete(t.Context(), tenant(nil)), "removed by the provider")
	check("the end of the cordon", patch(admin, func(t *authv1beta1.Tenant) { t.Annotations = nil }), "")
	check("the consent to delete the provider's volumes", patch(rome, consenting), "liqo.io/delete-volumes belongs to the provider")
	check("the provider's consent, for a Tenant whose ID is not proven", patch(admin, func(t *authv1beta1.Tenant) { consenting(t); claimed(t) }), "")
	check("what is its, with the provider's consent", patch(rome, proxy), "")
	check("withdrawing the provider's consent", patch(rome, withdrawn), "liqo.io/delete-volumes belongs to the provider")
	check("proving its ID by itself", patch(rome, proven), "liqo.io/claimed-cluster-id belongs to the provider")
	check("the end of the provider's consent", patch(admin, func(t *authv1beta1.Tenant) { withdrawn(t); proven(t) }), "")
	check("leaving", rome.Delete(t.Context(), tenant(nil)), "")
	remember := func(key string) {
		t.Helper()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-rome"}}
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, peering.AnnotationConsumerKey, key))
		if err := admin.Patch(t.Context(), namespace, patch); err != nil {
			t.Fatal(err)
		}
	}
	remember(base64.StdEncoding.EncodeToString([]byte("new"))) // as the controller manager does when it admits the Tenant
	apitest.Eventually(t, within, "the annotation to reach the policy", func() error {
		if err := rome.Create(t.Context(), tenant(key("thief")), client.DryRunAll); err == nil || !strings.Contains(err.Error(), otherKey) {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	})
	check("coming back without a key", rome.Create(t.Context(), tenant(nil)), otherKey)
	check("coming back as a thief", rome.Create(t.Context(), tenant(key("thief"))), otherKey)
	check("a thief whom an administrator lets in", admin.Create(t.Context(), tenant(key("thief")), client.DryRunAll), "")
	check("a key for a Tenant that an administrator created without one", admin.Create(t.Context(), tenant(nil)), "")
	check("that key by a thief", patch(rome, key("thief")), otherKey)
	check("that key by its owner", patch(rome, key("new")), "")
	check("leaving again", rome.Delete(t.Context(), tenant(nil)), "")
	check("coming back", rome.Create(t.Context(), tenant(key("new"))), "")
}

// TestConsumerAccountsPolicyOnAPIServer: the controller manager, with the rights of an administrator even, deletes the ServiceAccounts of consumers
// and no other ones.
func TestConsumerAccountsPolicyOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	const template = "consumer-accounts-policy.yaml"
	account := func(name string, labels map[string]string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}}
	}
	ofConsumer := map[string]string{peering.LabelAccount: api.True}
	for _, obj := range []client.Object{
		account("probe", nil), account("builder", nil),
		chartObjects(t, "milan", template, "ValidatingAdmissionPolicy", func() *admissionregistrationv1.ValidatingAdmissionPolicy {
			return &admissionregistrationv1.ValidatingAdmissionPolicy{}
		})[0],
		chartObjects(t, "milan", template, "ValidatingAdmissionPolicyBinding", func() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
			return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		})[0],
	} {
		if err := admin.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	own := rest.CopyConfig(config)
	own.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + api.Namespace + ":liqo-controller-manager", Groups: []string{"system:masters"}}
	manager := apitest.Client(t, own)
	apitest.InForce(t, admin)
	apitest.Eventually(t, within, "the policy to be in force", func() error {
		if err := manager.Delete(t.Context(), account("probe", nil), client.DryRunAll); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	})
	if err := manager.Delete(t.Context(), account("builder", nil)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "only the ServiceAccounts of consumers") {
		t.Errorf("deleting another ServiceAccount: %v, want a refusal", err)
	}
	if err := manager.Patch(t.Context(), account("builder", ofConsumer), client.MergeFrom(account("builder", nil))); !apierrors.IsForbidden(err) {
		t.Errorf("marking another ServiceAccount: %v, want a refusal", err)
	}
	if err := manager.Patch(t.Context(), account("builder", map[string]string{"tier": "front"}), client.MergeFrom(account("builder", nil))); err != nil {
		t.Errorf("changing another ServiceAccount: %v", err)
	}
	if err := errors.Join(manager.Create(t.Context(), account(peering.AccountName, ofConsumer)), manager.Delete(t.Context(), account(peering.AccountName, nil))); err != nil {
		t.Errorf("creating and deleting the ServiceAccount of a consumer: %v", err)
	}
	if err := admin.Delete(t.Context(), account("builder", nil)); err != nil {
		t.Errorf("an administrator deletes a ServiceAccount: %v", err)
	}
}
