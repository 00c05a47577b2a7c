package controllers

import (
	"crypto/rand"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/accounts"
)

// TestCertificatesHaveAShortLifetime: a certificate cannot be revoked, so it is requested for a short time.
func TestCertificatesHaveAShortLifetime(t *testing.T) {
	_, _, key := newKey(t)
	subject := peering.ControlPlaneSubject("rome")
	request, err := peering.NewRequest(rand.Reader, key, subject)
	if err != nil {
		t.Fatal(err)
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", UID: "1"}}
	s := &signing{client: fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build(), now: time.Now}
	csr, err := s.ask(t.Context(), accounts.Request{Owner: tenant, Consumer: "rome", Secret: "s", Request: request, Subject: subject}, "csr")
	if err != nil {
		t.Fatal(err)
	}
	if csr.Spec.ExpirationSeconds == nil || *csr.Spec.ExpirationSeconds != 7*24*3600 || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		t.Errorf("requested is %+v, want a certificate for seven days", csr.Spec)
	}
}

// TestNamesWithPermissionsAreRefused: a Tenant is not admitted under the name of a group that has permissions in this cluster.
func TestNamesWithPermissionsAreRefused(t *testing.T) {
	wide := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "admins"}, RoleRef: clusterRole("cluster-admin"), Subjects: subjects(rbacv1.GroupKind, "developers"),
	}
	local := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "teller"}, RoleRef: clusterRole("edit"), Subjects: subjects(rbacv1.UserKind, "ann"),
	}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(wide, local).Build()
	r := &tenants{providerSide: providerSide{client: c, reader: c}}
	for name, want := range map[string]bool{"developers": true, "ann": true, "rome": false} {
		if err := r.free(t.Context(), name); kube.IsInvalid(err) != want {
			t.Errorf("%s: %v, want a refusal %v", name, err, want)
		}
	}
}

// TestVouchedTenantsTakeNoNameWithPermissions: a Tenant without a certificate request, for which an administrator vouches, must not have the name of
// a user or group with permissions either. Permissions granted after the admission do not undo the admission.
func TestVouchedTenantsTakeNoNameWithPermissions(t *testing.T) {
	admins := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "admins"}, RoleRef: clusterRole("cluster-admin"), Subjects: subjects(rbacv1.GroupKind, "developers"),
	}
	for name, test := range map[string]struct {
		id      string
		bound   bool
		refused bool
	}{
		"free":                      {"rome", false, false},
		"another's":                 {"developers", false, true},
		"granted rights afterwards": {"developers", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			tenant := &authv1beta1.Tenant{
				ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant", Name: test.id, UID: "1"},
				Spec:       authv1beta1.TenantSpec{ClusterID: test.id, AuthzPolicy: authv1beta1.TolerateNoHandshake},
			}
			c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(admins, tenant).WithStatusSubresource(&corev1.ResourceQuota{}).Build()
			r := &tenants{providerSide: providerSide{client: c, reader: c, own: "milan", signing: &signing{client: c, now: time.Now}}}
			if test.bound {
				if err := r.bind(t.Context(), tenant); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.verify(t.Context(), tenant, accounts.Request{Owner: tenant, Consumer: test.id, Secret: "certificate"}); kube.IsInvalid(err) != test.refused {
				t.Errorf("%v, want a refusal %t", err, test.refused)
			}
		})
	}
}
