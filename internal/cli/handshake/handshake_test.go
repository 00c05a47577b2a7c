package handshake

import (
	"crypto/rand"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/peering"
)

// TestAdmissionGoal: a Tenant keeps its certificate request while that is for the key of the cluster, and its proxy unless the user names another
// one or none.
func TestAdmissionGoal(t *testing.T) {
	application := func() authv1beta1.TenantSpec {
		private, public, err := peering.NewKey(peering.Ed25519, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		key, err := peering.ParsePrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		request, err := peering.NewRequest(rand.Reader, key, peering.ControlPlaneSubject("rome"))
		if err != nil {
			t.Fatal(err)
		}
		return authv1beta1.TenantSpec{ClusterID: "rome", PublicKey: public, CSR: request}
	}
	ours, other := application(), application()
	signed := &corev1.Secret{Data: map[string][]byte{authv1beta1.SignedNonceKey: []byte("signature")}}
	again := ours
	again.CSR = append([]byte("\n"), ours.CSR...) // the same request, in other bytes
	for name, row := range map[string]struct {
		has         authv1beta1.TenantSpec
		proxy, had  *string
		want        []byte
		wantedProxy *string
	}{
		"a new Tenant":      {authv1beta1.TenantSpec{}, nil, nil, ours.CSR, nil},
		"the same key":      {again, nil, ptr.To("http://kept"), again.CSR, ptr.To("http://kept")},
		"another key":       {other, ptr.To("http://new"), ptr.To("http://old"), ours.CSR, ptr.To("http://new")},
		"no proxy any more": {ours, ptr.To(""), ptr.To("http://old"), ours.CSR, nil},
	} {
		tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}, Spec: row.has}
		tenant.Spec.ProxyURL = row.had
		applies := ours
		applies.ProxyURL = row.proxy
		g := admissionGoal(tenant, &applies, signed, "https://milan")
		g.Fill()
		if string(tenant.Spec.CSR) != string(row.want) || string(tenant.Spec.PublicKey) != string(ours.PublicKey) || string(tenant.Spec.Signature) != "signature" {
			t.Errorf("%s: %+v", name, tenant.Spec)
		}
		if got, want := ptr.Deref(tenant.Spec.ProxyURL, "none"), ptr.Deref(row.wantedProxy, "none"); got != want {
			t.Errorf("%s: the proxy is %s, want %s", name, got, want)
		}
		if g.Met().Done {
			t.Errorf("%s: admitted without an answer", name)
		}
		if g.Answer(); !g.Met().Done {
			t.Errorf("%s: not admitted with the answer, but %s", name, g.Met().Why)
		}
	}
}
