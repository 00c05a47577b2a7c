package controllers

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509/pkix"
	"fmt"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/accounts"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/test/apitest"
)

// renews advances the clock by two thirds of every certificate's lifetime and checks that new certificates arrive. It runs while rome and milan are
// peered.
func renews(t *testing.T, rome, milan *cluster) {
	t.Helper()
	names := []string{"controlplane-milan", "resourceslice-milan"}
	old := map[string][]byte{}
	for _, name := range names {
		identity := &authv1beta1.Identity{ObjectMeta: rome.meta(milan, name)}
		eventually(t, rome, identity, "there", func(*authv1beta1.Identity) bool { return true })
		old[name] = identity.Spec.AuthParams.SignedCRT
	}
	rome.ahead.Store(int64(45 * time.Minute))
	milan.ahead.Store(int64(45 * time.Minute))
	// The controllers set their alarm by the machine's clock: wake them.
	touch := func(o metav1.Object) { o.SetAnnotations(map[string]string{"touched": "true"}) }
	change(t, rome, &authv1beta1.Identity{ObjectMeta: rome.meta(milan, names[0])}, func(i *authv1beta1.Identity) { touch(i) })
	change(t, milan, &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)}, func(tenant *authv1beta1.Tenant) { touch(tenant) })
	// The nonce is not needed again.
	milan.delete(t, &corev1.Secret{ObjectMeta: milan.meta(rome, authv1beta1.NonceSecret)})
	change(t, milan, &authv1beta1.ResourceSlice{ObjectMeta: milan.meta(rome, "milan")}, func(s *authv1beta1.ResourceSlice) { touch(s) })
	for _, name := range names {
		identity := eventually(t, rome, &authv1beta1.Identity{ObjectMeta: rome.meta(milan, name)}, "renewed", func(i *authv1beta1.Identity) bool {
			return fresher(i.Spec.AuthParams.SignedCRT, old[name])
		})
		want, err := peering.Kubeconfig(identity, first(rome.key(t)))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, rome, &corev1.Secret{ObjectMeta: rome.meta(milan, "kubeconfig-"+name)}, "with the new certificate", func(s *corev1.Secret) bool {
			return bytes.Equal(s.Data["kubeconfig"], want)
		})
	}
	// One certificate for each identity: what the provider shows is what the consumer has.
	identity := &authv1beta1.Identity{ObjectMeta: rome.meta(milan, names[0])}
	eventually(t, milan, &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)}, "with the certificate of the Identity", func(tenant *authv1beta1.Tenant) bool {
		return rome.Get(t.Context(), keyOf(identity), identity) == nil && bytes.Equal(peering.CertificateIn(tenant.Status.AuthParams), identity.Spec.AuthParams.SignedCRT)
	})
	rome.gone(t, &authv1beta1.Renew{ObjectMeta: rome.meta(milan, names[0])})
	milan.gone(t, &authv1beta1.Renew{ObjectMeta: milan.meta(rome, names[0])})
	eventually(t, rome, &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}, "up", func(fc *corev1beta1.ForeignCluster) bool {
		return len(fc.Status.Conditions) == 1 && fc.Status.Conditions[0].Status == corev1beta1.StatusEstablished
	})
}

func first(a, _ []byte) []byte { return a }

// renewsAgain has the certificate of a ResourceSlice renewed three times in a row, by the alarm that the controller sets each time. A lost event
// would delay a renewal by as long as renewals that are overdue wait. It runs while rome and milan are peered.
func renewsAgain(t *testing.T, rome, milan *cluster) {
	t.Helper()
	const life = 3 * time.Second
	subject := peering.ResourceSliceSubject("milan", rome.id)
	name := pkix.Name{CommonName: subject.User, Organization: []string{subject.Group}}
	identity := &authv1beta1.Identity{ObjectMeta: rome.meta(milan, "resourceslice-milan")}
	for round := range 3 {
		// The certificate that is kept is still good.
		milan.delete(t, &corev1.Secret{ObjectMeta: milan.meta(rome, peering.CertificateSecretName("milan"))})
		began := milan.now().Truncate(time.Second)
		short, err := milan.authority.Certificate(rome.signer(t).Public(), name, began, began.Add(life))
		if err != nil {
			t.Fatal(err)
		}
		slice := &authv1beta1.ResourceSlice{ObjectMeta: milan.meta(rome, "milan")}
		if err := milan.Get(t.Context(), keyOf(slice), slice); err != nil {
			t.Fatal(err)
		}
		before := slice.DeepCopy()
		slice.Status.AuthParams.SignedCRT = short
		if err := milan.Status().Patch(t.Context(), slice, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		eventually(t, milan, slice, fmt.Sprintf("renewed, round %d", round+1), func(s *authv1beta1.ResourceSlice) bool {
			return fresher(s.Status.AuthParams.SignedCRT, short)
		})
		if took := milan.now().Sub(began); took < life*2/3 {
			t.Errorf("round %d: renewed after %s already", round+1, took)
		}
		eventually(t, rome, identity, "with the certificate that milan shows", func(i *authv1beta1.Identity) bool {
			return bytes.Equal(i.Spec.AuthParams.SignedCRT, slice.Status.AuthParams.SignedCRT)
		})
	}
}

// TestRenewalsAreRequeuedInTime: a renewal is reconciled at two thirds of the certificate's lifetime, and periodically afterwards.
func TestRenewalsAreRequeuedInTime(t *testing.T) {
	authority, err := apitest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now().Truncate(time.Second)
	certificate, err := authority.Certificate(key, pkix.Name{CommonName: "rome"}, began, began.Add(18*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "i"}}
	identity.Spec.AuthParams.SignedCRT = certificate
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(identity).Build()
	nothing := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
	for after, want := range map[time.Duration]time.Duration{0: 12 * time.Second, 11 * time.Second: time.Second, 12 * time.Second: overdue, time.Hour: overdue} {
		r := renewed(c, func() time.Time { return began.Add(after) }, nothing, func(i *authv1beta1.Identity) *authv1beta1.AuthParams { return &i.Spec.AuthParams })
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: keyOf(identity)})
		if err != nil || result.RequeueAfter != want {
			t.Errorf("after %s: again after %s, %v, want %s", after, result.RequeueAfter, err, want)
		}
	}
}

// TestEachIdentityHasOneCertificate: the response to a Renew is the certificate of the Tenant, and not a second one. While the certificate of the
// Tenant is due for renewal itself, the Renew waits for the new one.
func TestEachIdentityHasOneCertificate(t *testing.T) {
	authority, err := apitest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	_, public, key := newKey(t)
	subject := peering.ControlPlaneSubject("rome")
	request, err := peering.NewRequest(rand.Reader, key, subject)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now().Truncate(time.Second)
	certificate, err := authority.Certificate(key.Public(), pkix.Name{CommonName: subject.User, Organization: []string{subject.Group}}, began, began.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", UID: "1"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome", PublicKey: public, CSR: request}}
	tenant.Status.AuthParams = &authv1beta1.AuthParams{SignedCRT: certificate, APIServer: "https://milan"}
	for name, row := range map[string]struct {
		passed time.Duration
		want   []byte
	}{"renewed": {time.Minute, certificate}, "due": {50 * time.Minute, nil}} {
		renew := &authv1beta1.Renew{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "controlplane-milan", UID: "2", Labels: map[string]string{api.LabelReplicated: api.True, api.LabelOriginID: "rome"}},
			Spec:       authv1beta1.RenewSpec{ConsumerClusterID: "rome", IdentityType: authv1beta1.IdentityControlPlane, PublicKey: public, CSR: request},
		}
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(tenant.DeepCopy(), renew).Build()
		now := func() time.Time { return began.Add(row.passed) }
		r := &remoteRenewals{providerSide{client: c, reader: c, accounts: &accounts.Issuer{Client: c, Reader: c}, own: "milan", signing: &signing{client: c, now: now}, now: now}}
		err := r.sync(t.Context(), renew)
		var got []byte
		if renew.Status.AuthParams != nil {
			got = renew.Status.AuthParams.SignedCRT
		}
		var requests certificatesv1.CertificateSigningRequestList
		if listing := c.List(t.Context(), &requests); err != nil || listing != nil || !bytes.Equal(got, row.want) || len(requests.Items) > 0 {
			t.Errorf("%s: %v, %v, the Renew has another certificate than the Tenant (%d bytes, want %d), or %d certificates are requested", name, err, listing, len(got), len(row.want), len(requests.Items))
		}
	}
}

// TestRenewsGrantNothingNew: a Renew is answered with what was granted. For a ResourceSlice that is refused, and so has no identity, and for a Tenant
// that is not admitted, it gets nothing, also if it was answered before. The control plane of a Tenant that an administrator vouches for, without a
// certificate request in it, renews by itself.
func TestRenewsGrantNothingNew(t *testing.T) {
	_, public, key := newKey(t)
	request := func(subject peering.Subject) []byte {
		csr, err := peering.NewRequest(rand.Reader, key, subject)
		if err != nil {
			t.Fatal(err)
		}
		return csr
	}
	own, ofSlice := request(peering.ControlPlaneSubject("rome")), request(peering.ResourceSliceSubject("gold", "rome"))
	copied := map[string]string{api.LabelReplicated: api.True, api.LabelOriginID: "rome"}
	for what, row := range map[string]struct {
		csr    []byte // of the Tenant
		policy authv1beta1.AuthzPolicy
		slice  bool // whether the Renew is for a ResourceSlice
		asked  bool // whether a certificate is requested
	}{
		"a refused ResourceSlice":                            {own, authv1beta1.KeysExchange, true, false},
		"a refused ResourceSlice of a tolerated Tenant":      {nil, authv1beta1.TolerateNoHandshake, true, false},
		"a Tenant that is not admitted":                      {own, authv1beta1.KeysExchange, false, false},
		"a Tenant that is not admitted, without a request":   {nil, authv1beta1.KeysExchange, false, false},
		"a tolerated Tenant, before its certificate is made": {own, authv1beta1.TolerateNoHandshake, false, false},
		"a tolerated Tenant without a request":               {nil, authv1beta1.TolerateNoHandshake, false, true},
	} {
		tenant := &authv1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", UID: "1"},
			Spec:       authv1beta1.TenantSpec{ClusterID: "rome", PublicKey: public, CSR: row.csr, AuthzPolicy: row.policy},
		}
		slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "gold", UID: "2", Labels: copied}}
		renew := renewBy(own)
		renew.UID = "3"
		renew.Status.AuthParams = &authv1beta1.AuthParams{SignedCRT: []byte("of an earlier answer")}
		if row.slice {
			renew.Spec.IdentityType, renew.Spec.CSR, renew.Spec.ResourceSliceRef = authv1beta1.IdentityResourceSlice, ofSlice, &corev1.LocalObjectReference{Name: "gold"}
		}
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(tenant, slice, renew.DeepCopy()).Build()
		r := &remoteRenewals{providerSide{client: c, reader: c, accounts: &accounts.Issuer{Client: c, Reader: c}, own: "milan", signing: &signing{client: c, now: time.Now}, now: time.Now}}
		err := r.sync(t.Context(), renew)
		var requests certificatesv1.CertificateSigningRequestList
		if listing := c.List(t.Context(), &requests); listing != nil || kube.IsWait(err) != row.asked || !row.asked && (err != nil || renew.Status.AuthParams != nil) || (len(requests.Items) == 1) != row.asked {
			t.Errorf("%s: %v, %v, %d requests, answered %v; want a request: %t", what, err, listing, len(requests.Items), renew.Status.AuthParams, row.asked)
		}
	}
}

// fresher reports whether the PEM certificate a ends after b, or b is none.
func fresher(a, b []byte) bool {
	first, err := pki.First(a)
	if err != nil {
		return false
	}
	second, err := pki.First(b)
	return err != nil || first.NotAfter.After(second.NotAfter)
}

// renewBy returns a copy of a Renew of rome's control plane in milan, with a certificate request.
func renewBy(request []byte) *authv1beta1.Renew {
	return &authv1beta1.Renew{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "controlplane-milan", Labels: map[string]string{api.LabelReplicated: api.True, api.LabelOriginID: "rome"}},
		Spec:       authv1beta1.RenewSpec{ConsumerClusterID: "rome", IdentityType: authv1beta1.IdentityControlPlane, CSR: request},
	}
}
