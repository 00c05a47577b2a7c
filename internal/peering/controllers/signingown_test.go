package controllers

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/accounts"
)

// TestOnlyOurRequestsAreApproved: a CertificateSigningRequest of another user under our name, for another subject, signer or usage, is deleted and
// not approved.
func TestOnlyOurRequestsAreApproved(t *testing.T) {
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", UID: "1"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
	request := []byte("rome's")
	o := accounts.Request{Owner: tenant, Consumer: "rome", Request: request, Secret: "certificate"}
	ours := certificatesv1.CertificateSigningRequestSpec{
		Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName,
		Usages:            []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
		ExpirationSeconds: new(lifetime),
	}
	for name, test := range map[string]struct {
		change   func(*certificatesv1.CertificateSigningRequestSpec)
		approved bool
	}{
		"ours":            {func(*certificatesv1.CertificateSigningRequestSpec) {}, true},
		"another subject": {func(s *certificatesv1.CertificateSigningRequestSpec) { s.Request = []byte("an administrator's") }, false},
		"another signer": {func(s *certificatesv1.CertificateSigningRequestSpec) {
			s.SignerName = certificatesv1.KubeletServingSignerName
		}, false},
		"a longer life": {func(s *certificatesv1.CertificateSigningRequestSpec) { s.ExpirationSeconds = new(lifetime + 1) }, false},
		"any life":      {func(s *certificatesv1.CertificateSigningRequestSpec) { s.ExpirationSeconds = nil }, false},
		"another usage": {func(s *certificatesv1.CertificateSigningRequestSpec) {
			s.Usages = append(s.Usages, certificatesv1.UsageServerAuth)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: peering.RequestName("1", request)}, Spec: *ours.DeepCopy()}
			test.change(&csr.Spec)
			c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(csr).WithStatusSubresource(csr).Build()
			s := &signing{client: c, now: time.Now}
			certificate, err := s.certificate(t.Context(), o)
			got := &certificatesv1.CertificateSigningRequest{}
			gone := apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(csr), got))
			approved, _ := verdict(got)
			if certificate != nil || gone == test.approved || approved != test.approved {
				t.Errorf("approved %v, deleted %v, %v", approved, gone, err)
			}
		})
	}
}
