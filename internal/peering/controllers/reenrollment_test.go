package controllers

import (
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/internal/reasons"
)

// TestReenrollmentOnAPIServer: a credential that the provider does not accept any more is replaced in place, with a token and without a kubeconfig of the
// provider. What depends on the Identity stays. A credential that works is not replaced, nor one of another provider, nor by an old token.
func TestReenrollmentOnAPIServer(t *testing.T) {
	rome, milan := newPair(t)
	entry := milan.open(t)
	first := entry.token(t, nil)
	identity := inviteCluster(t, rome, milan, entry.url, first, "")
	eventually(t, rome, identity, "a kubeconfig", func(i *authv1beta1.Identity) bool { return i.Status.KubeconfigSecretRef != nil })
	rome.create(t, sliceOf(rome, milan))
	rome.create(t, mapOf(rome, milan))
	settled(t, rome, milan)
	uids := func() map[string]types.UID {
		out := map[string]types.UID{}
		for name, o := range map[string]client.Object{
			"Identity": &authv1beta1.Identity{ObjectMeta: rome.meta(milan, identity.Name)}, "NamespaceMap": mapOf(rome, milan), "ResourceSlice": sliceOf(rome, milan),
			"Identity of the ResourceSlice": &authv1beta1.Identity{ObjectMeta: rome.meta(milan, peering.SliceIdentityName("milan"))},
		} {
			if err := rome.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				t.Fatal(err)
			}
			if o.GetDeletionTimestamp() != nil {
				t.Errorf("the %s is being deleted", name)
			}
			out[name] = o.GetUID()
		}
		return out
	}
	before := uids()
	// reenroll does what liqoctl does: it writes an invitation, and asks to use it for the present credential.
	reenroll := func(t *testing.T, url, token string) {
		t.Helper()
		secret := &corev1.Secret{ObjectMeta: rome.meta(milan, invite.Secret)}
		change(t, rome, secret, func(s *corev1.Secret) {
			s.Data = map[string][]byte{invite.URLKey: []byte(url), invite.TokenKey: []byte(token)}
		})
		change(t, rome, identity, func(i *authv1beta1.Identity) {
			if i.Annotations == nil {
				i.Annotations = map[string]string{}
			}
			i.Annotations[peering.AnnotationReenroll] = peering.ReenrollmentOf(&i.Spec.AuthParams, secret)
		})
	}
	finished := func(i *authv1beta1.Identity) bool {
		return i.Annotations[peering.AnnotationReenroll] == "" && meta.IsStatusConditionTrue(i.Status.Conditions, kube.ConditionReady)
	}
	refused := func(t *testing.T, why string) {
		t.Helper()
		present := *identity.Spec.AuthParams.DeepCopy()
		eventually(t, rome, identity, "refused: "+why, func(i *authv1beta1.Identity) bool {
			ready := meta.FindStatusCondition(i.Status.Conditions, kube.ConditionReady)
			return ready != nil && ready.Reason == reasons.InvitationRefused && strings.Contains(ready.Message, why)
		})
		if diff := cmp.Diff(present, identity.Spec.AuthParams); diff != "" {
			t.Errorf("the credential is replaced (-before +after):\n%s", diff)
		}
	}
	expire := func(t *testing.T) {
		t.Helper()
		certificate, err := milan.authority.Certificate(rome.signer(t).Public(), pkix.Name{CommonName: rome.id, Organization: []string{peering.OrganizationControlPlane}},
			time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		change(t, rome, identity, func(i *authv1beta1.Identity) { i.Spec.AuthParams.SignedCRT = certificate })
		eventually(t, rome, &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}, "not accepted", func(fc *corev1beta1.ForeignCluster) bool {
			return peering.NeedsReenrollment(identity, fc, time.Now().Add(-24*time.Hour))
		})
	}
	// works checks that what depends on the Identity is the same, and is replicated again.
	works := func(t *testing.T, mapping string) {
		t.Helper()
		if diff := cmp.Diff(before, uids()); diff != "" {
			t.Errorf("UIDs (-before +after):\n%s", diff)
		}
		change(t, rome, mapOf(rome, milan), func(m *offloadingv1beta1.NamespaceMap) { m.Spec.DesiredMapping = map[string]string{"bank": mapping} })
		eventually(t, milan, &offloadingv1beta1.NamespaceMap{ObjectMeta: milan.meta(rome, "milan")}, "replicated", func(m *offloadingv1beta1.NamespaceMap) bool {
			return m.Spec.DesiredMapping["bank"] == mapping
		})
	}
	step := func(name string, f func(t *testing.T)) {
		if !t.Run(name, f) {
			t.FailNow() // what follows builds on it
		}
	}
	step("a credential that works stays", func(t *testing.T) {
		present := *identity.Spec.AuthParams.DeepCopy()
		reenroll(t, entry.url, entry.token(t, nil))
		eventually(t, rome, identity, "ended", finished)
		if diff := cmp.Diff(present, identity.Spec.AuthParams); diff != "" {
			t.Errorf("a credential that works is replaced (-before +after):\n%s", diff)
		}
	})
	step("an invitation alone replaces nothing", func(t *testing.T) {
		expire(t)
		present := *identity.Spec.AuthParams.DeepCopy()
		change(t, rome, identity, func(i *authv1beta1.Identity) { i.Annotations = map[string]string{peering.AnnotationReenroll: api.True} })
		time.Sleep(time.Second)
		eventually(t, rome, identity, "there", func(*authv1beta1.Identity) bool { return true })
		if diff := cmp.Diff(present, identity.Spec.AuthParams); diff != "" {
			t.Errorf("the credential is replaced (-before +after):\n%s", diff)
		}
	})
	step("another cluster of the same ID", func(t *testing.T) {
		impostor := newCluster(t, "milan")
		impostor.run(t)
		other := impostor.open(t)
		reenroll(t, other.url, other.token(t, func(token *invite.Token) { token.Consumer = rome.id }))
		refused(t, "a token replaces no provider")
	})
	step("an expired certificate", func(t *testing.T) {
		reenroll(t, entry.url, entry.token(t, nil))
		eventually(t, rome, identity, "replaced", finished)
		tenant := eventually(t, milan, &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)}, "there", func(*authv1beta1.Tenant) bool { return true })
		if diff := cmp.Diff(*tenant.Status.AuthParams, identity.Spec.AuthParams); diff != "" {
			t.Errorf("parameters (-Tenant +Identity):\n%s", diff)
		}
		works(t, "bank-expired")
	})
	step("a Tenant that was removed", func(t *testing.T) {
		tenant := &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)}
		unused := entry.token(t, nil)
		milan.delete(t, tenant)
		milan.gone(t, tenant)
		for _, old := range []string{first, unused} {
			reenroll(t, entry.url, old)
			refused(t, "has ended")
		}
		milan.ahead.Add(int64(2 * time.Second)) // a token of the same second counts as made before the end
		present := identity.Spec.AuthParams.SignedCRT
		reenroll(t, entry.url, entry.token(t, nil))
		eventually(t, rome, identity, "ended", finished)
		// The new Tenant gives rights to the same user. If its rights are there before its certificate was tried, the present certificate works again and
		// stays; otherwise the one of the new Tenant replaces it.
		tenant = &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)}
		eventually(t, milan, tenant, "admitted", func(t *authv1beta1.Tenant) bool { return peering.Granted(t.Status.AuthParams) })
		if got := string(identity.Spec.AuthParams.SignedCRT); got != string(present) && got != string(tenant.Status.AuthParams.SignedCRT) {
			t.Errorf("certificate\n%s, want the present one or that of the new Tenant", got)
		}
		works(t, "bank-removed")
	})
}
