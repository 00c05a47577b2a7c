package peering

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

func TestSignatureOverNonce(t *testing.T) {
	for name, algorithm := range map[string]Algorithm{"Ed25519": Ed25519, "RSA": RSA2048} {
		t.Run(name, func(t *testing.T) {
			rome, other := newHolder(t, algorithm), newHolder(t, algorithm)
			nonce, err := NewNonce(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			signature, err := Sign(rome.key, nonce)
			if err != nil {
				t.Fatal(err)
			}
			if err := Verify(rome.public, nonce, signature); err != nil {
				t.Errorf("own signature: %v", err)
			}
			if err := Verify(other.public, nonce, signature); !errors.Is(err, ErrSignature) {
				t.Errorf("another key: %v", err)
			}
			fresh, err := NewNonce(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			if err := Verify(rome.public, fresh, signature); !errors.Is(err, ErrSignature) {
				t.Errorf("a replayed signature: %v", err)
			}
			again, err := SignedNonce(rome.key, rome.public, nonce, signature)
			if err != nil || !bytes.Equal(again, signature) {
				t.Errorf("a good signature was replaced: %v", err)
			}
			replaced, err := SignedNonce(rome.key, rome.public, fresh, signature)
			if err != nil || Verify(rome.public, fresh, replaced) != nil {
				t.Errorf("a stale signature was kept: %v", err)
			}
		})
	}
}

// TestOnlyNoncesAreSigned: a cluster signs only nonces. Otherwise, a peer could get any text signed by presenting it as a nonce.
func TestOnlyNoncesAreSigned(t *testing.T) {
	rome := newHolder(t, Ed25519)
	good, err := NewNonce(bytes.NewReader(make([]byte, NonceSize)))
	if err != nil {
		t.Fatal(err)
	}
	for name, nonce := range map[string][]byte{
		"empty":            nil,
		"a request's body": []byte("0\x81\x88\x02\x01\x00"),
		"too short":        []byte(base64.StdEncoding.EncodeToString(make([]byte, 63))),
		"too long":         []byte(base64.StdEncoding.EncodeToString(make([]byte, 65))),
		"with a tail":      append(bytes.Clone(good), '\n', 'x'),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Sign(rome.key, nonce)
			refuses(t, err, true)
		})
	}
}

func TestOwnRequestsAreAccepted(t *testing.T) {
	for _, algorithm := range []Algorithm{Ed25519, RSA2048} {
		rome := newHolder(t, algorithm)
		for _, subject := range []Subject{ControlPlaneSubject("rome"), ResourceSliceSubject("gold", "rome")} {
			request, err := NewRequest(rand.Reader, rome.key, subject)
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckRequest(request, subject, rome.public); err != nil {
				t.Errorf("%v: %v", subject, err)
			}
			again, err := NewRequest(rand.Reader, rome.key, subject)
			if err != nil || !bytes.Equal(request, again) {
				t.Errorf("%v: the same request is made differently, err %v", subject, err)
			}
		}
	}
}

func TestSubjects(t *testing.T) {
	if got := ControlPlaneSubject("rome"); got != (Subject{User: "rome", Group: "liqo.io"}) {
		t.Errorf("control plane: %v", got)
	}
	// echo -n rome | sha256sum
	if got := ResourceSliceSubject("gold", "rome"); got != (Subject{User: "gold-a8a4c692b93b", Group: "rome"}) {
		t.Errorf("resource slice: %v", got)
	}
	if ResourceSliceSubject("gold", "rome").User == ResourceSliceSubject("gold", "milan").User {
		t.Error("two consumers share a user")
	}
}

// TestForeignRequestsAreRefused: a certificate request with another CN, O or key than those of the consumer is rejected.
func TestForeignRequestsAreRefused(t *testing.T) {
	rome, thief := newHolder(t, Ed25519), newHolder(t, Ed25519)
	good := rome.requestFor(t, "rome", "liqo.io")
	name := func(cn string, o ...string) pkix.Name { return pkix.Name{CommonName: cn, Organization: o} }
	cn := pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "milan"}
	for what, request := range map[string][]byte{
		"another cluster's name":    rome.requestFor(t, "milan", "liqo.io"),
		"an administrator's group":  rome.requestFor(t, "rome", "system:masters"),
		"two groups":                rome.requestFor(t, "rome", "liqo.io", "system:masters"),
		"a group of another tenant": rome.requestFor(t, "rome", "milan"),
		"no group":                  rome.requestFor(t, "rome"),
		"no name":                   rome.requestFor(t, "", "liqo.io"),
		"a second name":             rome.request(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "rome", Organization: []string{"liqo.io"}, ExtraNames: []pkix.AttributeTypeAndValue{cn}}}),
		"a unit":                    rome.request(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "rome", Organization: []string{"liqo.io"}, OrganizationalUnit: []string{"x"}}}),
		"a DNS name":                rome.request(t, &x509.CertificateRequest{Subject: name("rome", "liqo.io"), DNSNames: []string{"kubernetes.default.svc"}}),
		"an address":                rome.request(t, &x509.CertificateRequest{Subject: name("rome", "liqo.io"), IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}}),
		"an extension":              rome.request(t, &x509.CertificateRequest{Subject: name("rome", "liqo.io"), ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: []byte{5, 0}}}}),
		"another key":               thief.requestFor(t, "rome", "liqo.io"),
		"two blocks":                append(bytes.Clone(good), thief.requestFor(t, "rome", "liqo.io")...),
		"text before":               append([]byte("x\n"), good...),
		"a broken signature":        bytes.Replace(good, []byte("MII"), []byte("MIJ"), 1)[:len(good)-40],
		"no request":                rome.public,
		"nothing":                   nil,
	} {
		t.Run(what, func(t *testing.T) { refuses(t, CheckRequest(request, ControlPlaneSubject("rome"), rome.public), true) })
	}
	refuses(t, CheckRequest(good, ControlPlaneSubject("rome"), rome.public), false)
	refuses(t, CheckRequest(good, ControlPlaneSubject("rome"), nil), false)
}

func TestTenants(t *testing.T) {
	rome, thief := newHolder(t, Ed25519), newHolder(t, Ed25519)
	nonce, err := NewNonce(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewNonce(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := Sign(rome.key, nonce)
	if err != nil {
		t.Fatal(err)
	}
	good := authv1beta1.TenantSpec{ClusterID: "rome", PublicKey: rome.public, CSR: rome.requestFor(t, "rome", "liqo.io"), Signature: signature}
	with := func(f func(*authv1beta1.TenantSpec)) authv1beta1.TenantSpec {
		spec := *good.DeepCopy()
		f(&spec)
		return spec
	}
	for name, c := range map[string]struct {
		spec     authv1beta1.TenantSpec
		nonce    []byte
		admitted bool
		refused  bool
	}{
		"as it should be":   {good, nonce, false, false},
		"no cluster":        {with(func(s *authv1beta1.TenantSpec) { s.ClusterID = "" }), nonce, false, true},
		"this very cluster": {with(func(s *authv1beta1.TenantSpec) { s.ClusterID = "milan" }), nonce, false, true},
		"the name of a peering user": {with(func(s *authv1beta1.TenantSpec) {
			s.ClusterID = "liqo-peer-user-x"
			s.CSR = rome.requestFor(t, "liqo-peer-user-x", "liqo.io")
		}), nonce, false, true},
		"a request of another cluster":      {with(func(s *authv1beta1.TenantSpec) { s.CSR = rome.requestFor(t, "paris", "liqo.io") }), nonce, false, true},
		"a stolen public key":               {with(func(s *authv1beta1.TenantSpec) { s.Signature, _ = Sign(thief.key, nonce) }), nonce, false, true},
		"a request with another key":        {with(func(s *authv1beta1.TenantSpec) { s.CSR = thief.requestFor(t, "rome", "liqo.io") }), nonce, false, true},
		"a replayed signature":              {good, other, false, true},
		"no nonce":                          {good, nil, false, true},
		"no signature":                      {with(func(s *authv1beta1.TenantSpec) { s.Signature = nil }), nonce, false, true},
		"no key":                            {with(func(s *authv1beta1.TenantSpec) { s.PublicKey = nil }), nonce, false, true},
		"no request":                        {with(func(s *authv1beta1.TenantSpec) { s.CSR = nil }), nonce, false, true},
		"admitted, and the nonce is gone":   {good, nil, true, false},
		"admitted, with another key now":    {with(func(s *authv1beta1.TenantSpec) { s.PublicKey = thief.public }), nonce, true, true},
		"tolerated, without handshake":      {authv1beta1.TenantSpec{ClusterID: "rome", AuthzPolicy: authv1beta1.TolerateNoHandshake}, nil, false, false},
		"tolerated, with a foreign request": {authv1beta1.TenantSpec{ClusterID: "rome", CSR: rome.requestFor(t, "rome", "system:masters"), AuthzPolicy: authv1beta1.TolerateNoHandshake}, nil, false, true},
		"tolerated, with a request":         {authv1beta1.TenantSpec{ClusterID: "rome", CSR: good.CSR, AuthzPolicy: authv1beta1.TolerateNoHandshake}, nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			refuses(t, CheckTenant(&authv1beta1.Tenant{Spec: c.spec}, "milan", c.nonce, c.admitted), c.refused)
		})
	}
	if err := CheckTenant(&authv1beta1.Tenant{Spec: good}, "milan", nil, false); !errors.Is(err, ErrNoNonce) {
		t.Errorf("without a nonce it should wait for one: %v", err)
	}
}

func TestRenewalsAreBoundToTheHolder(t *testing.T) {
	rome, thief := newHolder(t, Ed25519), newHolder(t, Ed25519)
	tenant := &authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{ClusterID: "rome", PublicKey: rome.public}}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{
		Name: "gold", Labels: map[string]string{"liqo.io/replicated": "true", "liqo.io/originID": "rome"},
	}}
	user := ResourceSliceSubject("gold", "rome").User
	for name, c := range map[string]struct {
		spec    authv1beta1.RenewSpec
		slice   *authv1beta1.ResourceSlice
		refused bool
	}{
		"control plane":                 {renewSpec("rome", authv1beta1.IdentityControlPlane, rome.requestFor(t, "rome", "liqo.io"), ""), nil, false},
		"with a new key":                {renewSpec("rome", authv1beta1.IdentityControlPlane, thief.requestFor(t, "rome", "liqo.io"), ""), nil, true},
		"for another tenant":            {renewSpec("paris", authv1beta1.IdentityControlPlane, rome.requestFor(t, "paris", "liqo.io"), ""), nil, true},
		"with another tenant's name":    {renewSpec("rome", authv1beta1.IdentityControlPlane, rome.requestFor(t, "paris", "liqo.io"), ""), nil, true},
		"as administrator":              {renewSpec("rome", authv1beta1.IdentityControlPlane, rome.requestFor(t, "rome", "system:masters"), ""), nil, true},
		"resource slice":                {renewSpec("rome", authv1beta1.IdentityResourceSlice, rome.requestFor(t, user, "rome"), "gold"), slice, false},
		"resource slice that is not":    {renewSpec("rome", authv1beta1.IdentityResourceSlice, rome.requestFor(t, user, "rome"), "gold"), nil, true},
		"control plane by slice":        {renewSpec("rome", authv1beta1.IdentityResourceSlice, rome.requestFor(t, "rome", "liqo.io"), "gold"), slice, true},
		"another slice's user":          {renewSpec("rome", authv1beta1.IdentityResourceSlice, rome.requestFor(t, ResourceSliceSubject("iron", "rome").User, "rome"), "gold"), slice, true},
		"an identity type nobody knows": {renewSpec("rome", "Other", rome.requestFor(t, "rome", "liqo.io"), ""), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := CheckRenew(&authv1beta1.Renew{Spec: c.spec}, tenant, c.slice)
			refuses(t, err, c.refused)
		})
	}
}

func renewSpec(consumer string, kind authv1beta1.IdentityType, request []byte, slice string) authv1beta1.RenewSpec {
	spec := authv1beta1.RenewSpec{ConsumerClusterID: consumer, IdentityType: kind, CSR: request}
	if slice != "" {
		spec.ResourceSliceRef = &corev1.LocalObjectReference{Name: slice}
	}
	return spec
}

func TestRenewalPlan(t *testing.T) {
	rome := newHolder(t, Ed25519)
	subject := ControlPlaneSubject("rome")
	present, next := rome.certificate(t, subject, 3*time.Hour), rome.certificate(t, subject, 4*time.Hour)
	identity := &authv1beta1.Identity{Spec: authv1beta1.IdentitySpec{AuthParams: authv1beta1.AuthParams{SignedCRT: present}}}
	answered := &authv1beta1.Renew{Status: authv1beta1.RenewStatus{AuthParams: &authv1beta1.AuthParams{SignedCRT: next}}}
	old := &authv1beta1.Renew{Status: authv1beta1.RenewStatus{AuthParams: &authv1beta1.AuthParams{SignedCRT: present}}}
	for name, c := range map[string]struct {
		renew *authv1beta1.Renew
		now   time.Duration
		want  Renewal
	}{
		"young":                 {nil, time.Hour, Renewal{At: then.Add(2 * time.Hour)}},
		"two thirds gone":       {nil, 2 * time.Hour, Renewal{Ask: true}},
		"asked, not answered":   {&authv1beta1.Renew{}, 2 * time.Hour, Renewal{Ask: true}},
		"answered":              {answered, 2 * time.Hour, Renewal{Adopt: true}},
		"answered with the old": {old, 2 * time.Hour, Renewal{Ask: true}},
		"expired":               {nil, 5 * time.Hour, Renewal{Ask: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := PlanRenewal(identity, c.renew, then.Add(c.now))
			if err != nil || got != c.want {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestCertificateServesTheRequestOnly(t *testing.T) {
	rome, thief := newHolder(t, Ed25519), newHolder(t, Ed25519)
	subject := ControlPlaneSubject("rome")
	request := rome.requestFor(t, "rome", "liqo.io")
	good := rome.certificate(t, subject, 3*time.Hour)
	refuses(t, CheckCertificate(good, request, subject, then.Add(time.Hour)), false)
	refuses(t, CheckCertificate(good, request, subject, then.Add(2*time.Hour)), true)
	refuses(t, CheckCertificate(thief.certificate(t, subject, time.Hour), request, subject, then), true)
	refuses(t, CheckCertificate(rome.certificate(t, ControlPlaneSubject("paris"), time.Hour), request, subject, then), true)
	refuses(t, CheckHolder(good, rome.key), false)
	refuses(t, CheckHolder(good, thief.key), true)
}
