package controllers

import (
	"crypto/x509/pkix"
	"errors"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/test/apitest"
)

// holder is a configuration with a client certificate of its own: a real user of the API server, not an impersonated one.
func holder(t *testing.T, config *rest.Config, authority *apitest.Authority, subject peering.Subject) *rest.Config {
	t.Helper()
	private, _, key := newKey(t)
	certificate, err := authority.Certificate(key.Public(), pkix.Name{CommonName: subject.User, Organization: []string{subject.Group}},
		time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	user := rest.AnonymousClientConfig(config)
	user.CertData, user.KeyData = certificate, private
	return user
}

// TestPeeringUserPolicyOnAPIServer tries, with the certificate of a peering user, to read a ServiceAccount token or another Secret by means of the
// one Secret that it may create.
func TestPeeringUserPolicyOnAPIServer(t *testing.T) {
	_, config, authority := apitest.WithAuthority(t)
	admin := apitest.Client(t, config)
	const namespace = "liqo-tenant-rome"
	for _, obj := range []client.Object{
		chartObjects(t, "milan", "peering-user-policy.yaml", "ValidatingAdmissionPolicy", func() *admissionregistrationv1.ValidatingAdmissionPolicy {
			return &admissionregistrationv1.ValidatingAdmissionPolicy{}
		})[0],
		chartObjects(t, "milan", "peering-user-policy.yaml", "ValidatingAdmissionPolicyBinding", func() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
			return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		})[0],
		chartObjects(t, "milan", "peering-user-roles.yaml", "ClusterRole", func() *rbacv1.ClusterRole { return &rbacv1.ClusterRole{} })[0],
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gw-rome"}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "user"}, RoleRef: clusterRole("liqo-peering-user"), Subjects: subjects(rbacv1.UserKind, peeringUser),
		},
	} {
		if err := admin.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	rome := apitest.Client(t, holder(t, config, authority, peering.Subject{User: peeringUser, Group: peering.OrganizationControlPlane}))
	nonce := func(change func(*corev1.Secret)) *corev1.Secret {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: authv1beta1.NonceSecret, Labels: map[string]string{authv1beta1.LabelNonce: api.True, api.LabelRemoteClusterID: "rome"},
		}}
		if change != nil {
			change(secret)
		}
		return secret
	}
	apitest.InForce(t, admin)
	apitest.Eventually(t, within, "the policy to be in force", func() error {
		if err := rome.Create(t.Context(), nonce(func(s *corev1.Secret) { s.Name = "probe" }), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "must be liqo-nonce") {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	})
	isTrue := true
	for name, row := range map[string]struct {
		change func(*corev1.Secret)
		says   string
	}{
		"the token of a gateway": {func(s *corev1.Secret) {
			s.Type, s.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "gw-rome"}
		}, "must be Opaque"},
		"a token of the bootstrap":  {func(s *corev1.Secret) { s.Type = corev1.SecretTypeBootstrapToken }, "must be Opaque"},
		"the annotation of a token": {func(s *corev1.Secret) { s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "gw-rome"} }, "annotations must be empty"},
		"a copy of another Secret": {func(s *corev1.Secret) {
			s.Annotations = map[string]string{"replicator.v1.mittwald.de/replicate-from": "liqo/keys"}
		}, "annotations must be empty"},
		"a kubeconfig for a link":    {func(s *corev1.Secret) { s.Labels[authv1beta1.LabelIdentityType] = "ControlPlane" }, "and nothing else"},
		"a nonce for us to sign":     {func(s *corev1.Secret) { s.Labels[authv1beta1.LabelSignedNonce] = api.True }, "and nothing else"},
		"an invitation":              {func(s *corev1.Secret) { s.Labels[invite.Label] = api.True }, "and nothing else"},
		"for another cluster":        {func(s *corev1.Secret) { s.Labels[api.LabelRemoteClusterID] = "turin" }, "remote-cluster-id=rome"},
		"without the label":          {func(s *corev1.Secret) { s.Labels = nil }, "liqo.io/nonce=true"},
		"a nonce that it chose":      {func(s *corev1.Secret) { s.Data = map[string][]byte{authv1beta1.NonceKey: []byte("x")} }, "the provider writes the nonce"},
		"the same as text":           {func(s *corev1.Secret) { s.StringData = map[string]string{authv1beta1.NonceKey: "x"} }, "the provider writes the nonce"},
		"a nonce nobody may write":   {func(s *corev1.Secret) { s.Immutable = &isTrue }, "the provider writes the nonce"},
		"held by a finalizer":        {func(s *corev1.Secret) { s.Finalizers = []string{"rome.example/stay"} }, "must be empty"},
		"a name that is generated":   {func(s *corev1.Secret) { s.Name, s.GenerateName = "", "liqo-nonce" }, "must be liqo-nonce"},
		"the kubeconfig of an owner": {func(s *corev1.Secret) { s.Name = "kubeconfig-controlplane-milan" }, "must be liqo-nonce"},
		"owned by something": {func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: "gw-rome", UID: "x"}}
		}, "must be empty"},
		"the one that the handshake needs": {nil, ""},
	} {
		err := rome.Create(t.Context(), nonce(row.change), client.DryRunAll)
		if (row.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", name, err, row.says)
		}
	}
	if err := rome.Create(t.Context(), nonce(nil)); err != nil {
		t.Fatal(err)
	}
	changed := nonce(func(s *corev1.Secret) { s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "gw-rome"} })
	if err := rome.Update(t.Context(), changed); err == nil {
		t.Error("a peering user changed the Secret of the nonce")
	}
	// The other ways to a token: none of its rights leads there.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gw-rome"}}
	for name, err := range map[string]error{
		"asking for a token":           rome.SubResource("token").Create(t.Context(), account, tokenRequest()),
		"a pod with the account":       rome.Create(t.Context(), podAs(namespace, "gw-rome")),
		"reading all Secrets":          rome.List(t.Context(), &corev1.SecretList{}, client.InNamespace(namespace)),
		"an account of its own":        rome.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"}}),
		"an Identity for the Secret":   rome.Create(t.Context(), &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "controlplane-milan"}}),
		"more rights for the account":  rome.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"}, RoleRef: clusterRole("admin")}),
		"the token as another account": rome.Create(t.Context(), podAs("default", "default")),
	} {
		if err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("%s: %v, want it forbidden", name, err)
		}
	}
}

func tokenRequest() *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "gw-rome"}}
}

func podAs(namespace, account string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"},
		Spec:       corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}
}
