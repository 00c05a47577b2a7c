package peering

import (
	"crypto/rand"
	"strings"
	"testing"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/peering/invite"
)

func enrollRequestOf(t *testing.T, h holder, cluster string, nonce []byte) *EnrollRequest {
	t.Helper()
	signature, err := Sign(h.key, nonce)
	if err != nil {
		t.Fatal(err)
	}
	request, err := NewRequest(rand.Reader, h.key, ControlPlaneSubject(cluster))
	if err != nil {
		t.Fatal(err)
	}
	return &EnrollRequest{NonceRequest: NonceRequest{Cluster: cluster}, PublicKey: h.public, CSR: request, Signature: signature}
}

func TestApplications(t *testing.T) {
	nonce, err := NewNonce(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rome, thief := newHolder(t, Ed25519), newHolder(t, RSA2048)
	known := func(change func(*authv1beta1.TenantSpec)) *authv1beta1.Tenant {
		enrollRequest := enrollRequestOf(t, rome, "rome", nonce)
		tenant := &authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{
			ClusterID: "rome", PublicKey: enrollRequest.PublicKey, CSR: enrollRequest.CSR, Signature: enrollRequest.Signature, TenantCondition: authv1beta1.TenantCordoned,
		}}
		if change != nil {
			change(&tenant.Spec)
		}
		return tenant
	}
	for name, test := range map[string]struct {
		enrollRequest *EnrollRequest
		change        func(*EnrollRequest)
		present       *authv1beta1.Tenant
		nonce         []byte
		refused       string
	}{
		"of a stranger":    {},
		"once more":        {present: known(nil)},
		"of one with RSA":  {enrollRequest: enrollRequestOf(t, thief, "naples", nonce)},
		"without a nonce":  {nonce: []byte{}, refused: ErrNoNonce.Error()},
		"over another one": {change: func(a *EnrollRequest) { a.Signature[0] ^= 1 }, refused: "spec.signature"},
		"somebody else's signature": {
			enrollRequest: enrollRequestOf(t, thief, "rome", nonce), change: func(a *EnrollRequest) { a.PublicKey = rome.public }, refused: "spec.signature",
		},
		"somebody else's request": {
			change: func(a *EnrollRequest) { a.CSR = enrollRequestOf(t, thief, "rome", nonce).CSR }, refused: "spec.csr",
		},
		"in another name":     {change: func(a *EnrollRequest) { a.CSR = enrollRequestOf(t, rome, "naples", nonce).CSR }, refused: "spec.csr"},
		"of this cluster":     {enrollRequest: enrollRequestOf(t, rome, "milan", nonce), refused: "this cluster itself"},
		"taking rome over":    {enrollRequest: enrollRequestOf(t, thief, "rome", nonce), present: known(nil), refused: ErrOtherKey.Error()},
		"with both keys told": {enrollRequest: enrollRequestOf(t, thief, "rome", nonce), present: known(nil), refused: "its key is " + Fingerprint(rome.public) + ", that of the request " + Fingerprint(thief.public)},
		"beside a given word": {present: known(func(s *authv1beta1.TenantSpec) { s.PublicKey = nil }), refused: ErrOtherKey.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			enrollRequest := test.enrollRequest
			if enrollRequest == nil {
				enrollRequest = enrollRequestOf(t, rome, "rome", nonce)
			}
			if test.change != nil {
				test.change(enrollRequest)
			}
			given := nonce
			if test.nonce != nil {
				given = test.nonce
			}
			spec, err := Apply(enrollRequest, test.present, "milan", given)
			switch {
			case test.refused != "":
				if err == nil || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("error %v, want one with %q", err, test.refused)
				}
			case err != nil:
				t.Error(err)
			case test.present != nil && string(spec.CSR) != string(test.present.Spec.CSR):
				t.Error("the request was replaced, and would be signed again")
			case test.present != nil && spec.TenantCondition != authv1beta1.TenantCordoned:
				t.Error("the provider's condition was changed")
			}
		})
	}
}

// TestTokenForAnyClusterProvesNoIdentity: the holder of a token for any cluster may state any cluster ID, and gets access to no namespace that was
// created for another purpose.
func TestTokenForAnyClusterProvesNoIdentity(t *testing.T) {
	for name, row := range map[string]struct {
		token invite.Token
		known *Known
		want  bool
	}{
		"a cluster that is not known":                  {invite.Token{}, nil, true},
		"a provider of this cluster":                   {invite.Token{}, &Known{Provider: true}, false},
		"a provider, met after it was a tenant":        {invite.Token{}, &Known{Enrolled: true, Provider: true}, false},
		"a namespace that an administrator made":       {invite.Token{}, &Known{}, false},
		"what the request before made":                 {invite.Token{}, &Known{Enrolled: true}, true},
		"a tenant, which has to show its key":          {invite.Token{}, &Known{Tenant: true}, true},
		"a tenant and provider":                        {invite.Token{}, &Known{Tenant: true, Provider: true}, true},
		"a provider by a token for it":                 {invite.Token{Consumer: "milan"}, &Known{Provider: true}, true},
		"a token for another cluster":                  {invite.Token{Consumer: "turin"}, &Known{Provider: true}, false},
		"an administrator's namespace, a token for it": {invite.Token{Consumer: "milan"}, &Known{}, true},
	} {
		err := CheckEntry(row.token, "milan", row.known)
		if (err == nil) != row.want {
			t.Errorf("%s: %v, want entry %v", name, err, row.want)
		}
		if err != nil && !strings.Contains(err.Error(), "--consumer-cluster-id milan") {
			t.Errorf("%s: the error names no cure: %v", name, err)
		}
	}
}
