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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	apitesting "liqo.io/liqo/internal/testing"
)

// renews lets two thirds of every certificate's life pass and looks whether new ones arrive. It runs while rome and milan are peered.
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
			return peering.Fresher(i.Spec.AuthParams.SignedCRT, old[name])
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
		return rome.Get(t.Context(), keyOf(identity), identity) == nil && bytes.Equal(signed(tenant.Status.AuthParams), identity.Spec.AuthParams.SignedCRT)
	})
	rome.gone(t, &authv1beta1.Renew{ObjectMeta: rome.meta(milan, names[0])})
	milan.gone(t, &authv1beta1.Renew{ObjectMeta: milan.meta(rome, names[0])})
	eventually(t, rome, &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}, "up", func(fc *corev1beta1.ForeignCluster) bool {
		return len(fc.Status.Conditions) == 1 && fc.Status.Conditions[0].Status == corev1beta1.StatusEstablished
	})
}

func first(a, _ []byte) []byte { return a }

// renewsAgain has the certificate of a ResourceSlice renewed three times in a row, by the alarm that the controller sets each time. A lost event would delay a
// renewal by as long as renewals that are overdue wait. It runs while rome and milan are peered.
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
			return peering.Fresher(s.Status.AuthParams.SignedCRT, short)
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
	authority, err := apitesting.NewAuthority()
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
		r := renewed(c, func() time.Time { return began.Add(after) }, nothing, func(i *authv1beta1.Identity) []byte { return i.Spec.AuthParams.SignedCRT })
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: keyOf(identity)})
		if err != nil || result.RequeueAfter != want {
			t.Errorf("after %s: again after %s, %v, want %s", after, result.RequeueAfter, err, want)
		}
	}
}
