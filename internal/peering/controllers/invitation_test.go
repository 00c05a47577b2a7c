package controllers

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/internal/reasons"
)

// stub is an authentication service of milan that states a key, and counts the requests of each kind.
type stub struct {
	*httptest.Server
	public          []byte
	nonces, tenants atomic.Int32
}

func newStub(t *testing.T) *stub {
	t.Helper()
	_, public, err := peering.NewKey(peering.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	nonce, err := peering.NewNonce(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &stub{public: public}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == peering.EnrollmentTenantPath {
			s.tenants.Add(1)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.nonces.Add(1)
		_ = json.NewEncoder(w).Encode(&peering.Nonce{Cluster: "milan", Nonce: nonce, PublicKey: s.public})
	}))
	t.Cleanup(s.Close)
	return s
}

// invitation is one to the stub, with the given owner; nil for none.
func (s *stub) invitation(t *testing.T, owner *metav1.OwnerReference) *corev1.Secret {
	t.Helper()
	certificate, err := x509.ParseCertificate(s.TLS.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	token := invite.Token{ID: "AAECAwQFBgcI", Expires: time.Now().Add(time.Hour), Pin: invite.PinOf(certificate)}.Text([]byte("secret"))
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: invite.Secret, UID: "sent", Labels: map[string]string{api.LabelRemoteClusterID: "milan"}},
		Data:       map[string][]byte{invite.URLKey: []byte(s.URL), invite.TokenKey: []byte(token)},
	}
	if owner != nil {
		secret.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return secret
}

// consumer returns the controller of Identities in rome, with the Identity of milan and the given objects.
func consumer(t *testing.T, objects ...client.Object) (*identities, client.Client, *authv1beta1.Identity) {
	t.Helper()
	identity := &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: peering.ControlPlaneIdentityName("milan"), UID: "identity", Labels: map[string]string{api.LabelRemoteClusterID: "milan"}},
		Spec:       authv1beta1.IdentitySpec{ClusterID: "milan", Type: authv1beta1.IdentityControlPlane},
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: identity.Namespace, Labels: map[string]string{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: "milan"}}}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(append(objects, identity, namespace)...).WithStatusSubresource(&authv1beta1.Identity{}, &corev1beta1.ForeignCluster{}).Build()
	return &identities{consumerSide: consumerSide{
		client: c, events: events.NewFakeRecorder(100), own: "rome", now: time.Now, random: rand.Reader,
		keys: &keys{client: c, reader: c, namespace: api.Namespace, algorithm: peering.Ed25519, random: rand.Reader},
	}}, c, identity
}

// TestPlantedInvitationsAreNotUsed: a Tenant that calls itself milan has stored an invitation to its own service, and the administrator asks for the real milan
// with an address and a pinned token. The Identity exists before its invitation. This cluster sends nothing to the service of the Tenant, and enrolls at
// the address of the administrator.
func TestPlantedInvitationsAreNotUsed(t *testing.T) {
	impostor, real := newStub(t), newStub(t)
	chosen := real.invitation(t, nil)
	fc := wishedCluster(real.URL)
	r, c, identity := consumer(t, fc, tokenSecret(string(chosen.Data[invite.TokenKey])),
		impostor.invitation(t, &metav1.OwnerReference{APIVersion: authv1beta1.GroupVersion.String(), Kind: "Tenant", Name: "milan", UID: "tenant"}))
	if err := r.sync(t.Context(), identity.DeepCopy()); !kube.IsWait(err) {
		t.Errorf("the planted invitation: %v, want a wait", err)
	}
	wishes := &foreignClusters{
		client: c, reader: c, events: events.NewFakeRecorder(100), own: "rome", namespace: api.Namespace, links: &links{running: map[string]*link{}}, now: time.Now,
	}
	if _, err := wishes.reconcile(t.Context(), "milan"); err != nil {
		t.Fatal(err)
	}
	if err := r.sync(t.Context(), identity.DeepCopy()); !kube.IsInvalid(err) { // the stub refuses
		t.Errorf("the invitation of the administrator: %v", err)
	}
	if got := impostor.nonces.Load() + impostor.tenants.Load(); got > 0 {
		t.Errorf("the service of the Tenant received %d requests, want none", got)
	}
	if real.tenants.Load() != 1 {
		t.Errorf("the service at the administrator's address received %d enrollments, want 1", real.tenants.Load())
	}
}

// TestAnIDHasOneKey: a Tenant enrolled as milan with a token for any cluster, and the administrator peers with another milan. This cluster does not enroll there,
// and names both keys, until an administrator confirms the Tenant. An Identity that came with a credential gets no kubeconfig.
func TestAnIDHasOneKey(t *testing.T) {
	real := newStub(t)
	_, public, err := peering.NewKey(peering.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tenant := &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Annotations: map[string]string{peering.AnnotationClaimedID: api.True}},
		Spec:       authv1beta1.TenantSpec{ClusterID: "milan", PublicKey: public},
	}
	r, c, identity := consumer(t, tenant, real.invitation(t, nil))
	err = r.sync(t.Context(), identity.DeepCopy())
	for _, text := range []string{peering.Fingerprint(public), peering.Fingerprint(real.public)} {
		if !kube.IsInvalid(err) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want a refusal with %s", err, text)
		}
	}
	granted := identity.DeepCopy()
	granted.Spec.AuthParams = authv1beta1.AuthParams{SignedCRT: []byte("crt"), APIServer: "https://192.0.2.7:6443"}
	if err := r.sync(t.Context(), granted); !kube.IsInvalid(err) || !strings.Contains(err.Error(), peering.Fingerprint(public)) {
		t.Errorf("with a credential: %v", err)
	}
	if real.tenants.Load() != 0 {
		t.Error("this cluster enrolled before the Tenant was confirmed")
	}
	delete(tenant.Annotations, peering.AnnotationClaimedID)
	if err := c.Update(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	if err := r.sync(t.Context(), identity.DeepCopy()); real.tenants.Load() != 1 {
		t.Errorf("after the confirmation: %v, and no enrollment", err)
	}
	// With the key of the Tenant it is one cluster.
	tenant.Annotations, tenant.Spec.PublicKey = map[string]string{peering.AnnotationClaimedID: api.True}, real.public
	if err := c.Update(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	if err := r.sync(t.Context(), identity.DeepCopy()); real.tenants.Load() != 2 {
		t.Errorf("with the same key: %v, and no enrollment", err)
	}
}

// TestPlantedInvitationsOnAPIServer is the attack of TestPlantedInvitationsAreNotUsed with all controllers and a real enrollment of the impostor, which is evil.
func TestPlantedInvitationsOnAPIServer(t *testing.T) {
	rome, evil := newPair(t) // evil has the ID milan
	romeEntry, evilEntry := rome.open(t), evil.open(t)
	if err := evil.Create(t.Context(), evil.tenantNamespace(rome)); err != nil {
		t.Fatal(err)
	}
	back := evilEntry.token(t, func(token *invite.Token) { token.Consumer = "rome" })
	evil.create(t, &corev1.Secret{
		ObjectMeta: evil.meta(rome, invite.Secret, invite.Label),
		Data: map[string][]byte{
			invite.URLKey: []byte(romeEntry.url), invite.TokenKey: []byte(romeEntry.token(t, nil)),
			invite.BackURLKey: []byte(evilEntry.url), invite.BackTokenKey: []byte(back),
		},
	})
	evil.create(t, &authv1beta1.Identity{
		ObjectMeta: evil.meta(rome, peering.ControlPlaneIdentityName("rome")), Spec: authv1beta1.IdentitySpec{ClusterID: "rome", Type: authv1beta1.IdentityControlPlane},
	})
	planted := &corev1.Secret{ObjectMeta: rome.meta(evil, invite.Secret)}
	eventually(t, rome, planted, "planted", func(s *corev1.Secret) bool { return string(s.Data[invite.URLKey]) == evilEntry.url })

	real := newStub(t)
	chosen := real.invitation(t, nil)
	rome.create(t, tokenSecret(string(chosen.Data[invite.TokenKey])))
	existing := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	eventually(t, rome, existing, "there", func(*corev1beta1.ForeignCluster) bool { return true })
	change(t, rome, existing, func(o *corev1beta1.ForeignCluster) { o.Spec = wishedCluster(real.URL).Spec })
	eventually(t, rome, existing, "refuses with both keys", func(fc *corev1beta1.ForeignCluster) bool {
		for _, c := range fc.Status.Conditions {
			if c.Type == corev1beta1.OutgoingPeering {
				return c.Reason == reasons.InvitationUnconfirmed && strings.Contains(c.Message, peering.Fingerprint(real.public))
			}
		}
		return false
	})
	identity := &authv1beta1.Identity{ObjectMeta: rome.meta(evil, peering.ControlPlaneIdentityName("milan"))}
	if err := rome.Get(t.Context(), client.ObjectKeyFromObject(identity), identity); err != nil {
		t.Fatal(err)
	}
	if identity.Spec.AuthParams.APIServer != "" || real.tenants.Load() > 0 {
		t.Errorf("rome has an identity at %q, and sent %d enrollments to the address of the administrator", identity.Spec.AuthParams.APIServer, real.tenants.Load())
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: rome.meta(evil, "milan")}
	if err := rome.Get(t.Context(), client.ObjectKeyFromObject(tenant), tenant); err != nil {
		t.Fatal(err)
	}
	change(t, rome, tenant, func(o *authv1beta1.Tenant) { delete(o.Annotations, peering.AnnotationClaimedID) })
	eventually(t, rome, existing, "enrolls at the address of the administrator", func(*corev1beta1.ForeignCluster) bool { return real.tenants.Load() > 0 })
}
