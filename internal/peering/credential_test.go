package peering

import (
	"bytes"
	"crypto/x509"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	charts "liqo.io/liqo/charts/liqo"
)

// sealedFor makes the token that a provider issues for a holder: from then, for the given time.
func (h holder) sealedFor(t testing.TB, text string, subject Subject, life time.Duration) *authv1beta1.SealedToken {
	t.Helper()
	request := h.requestFor(t, subject.User, subject.Group)
	recipient, err := Recipient(request)
	if err != nil {
		t.Fatal(err)
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, recipient)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	as := TokenSubject(subject)
	of, err := Holder(request)
	if err != nil {
		t.Fatal(err)
	}
	return &authv1beta1.SealedToken{
		Sealed: sealed.Bytes(), User: as.User, Group: as.Group, Holder: of, ServiceAccountUID: "1",
		IssuedAt: metav1.NewTime(then), ExpiresAt: metav1.NewTime(then.Add(life)),
	}
}

// TestOnlyTheHolderReadsAToken: a copy of a Tenant, an Identity or a backup of them does not reveal the token, with either type of key.
func TestOnlyTheHolderReadsAToken(t *testing.T) {
	for name, algorithm := range map[string]Algorithm{"ed25519": Ed25519, "rsa": RSA2048} {
		t.Run(name, func(t *testing.T) {
			rome, naples := newHolder(t, algorithm), newHolder(t, algorithm)
			token := rome.sealedFor(t, "header.payload.signature", ControlPlaneSubject("rome"), time.Hour)
			if bytes.Contains(token.Sealed, []byte("payload")) {
				t.Error("the sealed token can be read without a key")
			}
			if got, err := OpenToken(token, rome.key); err != nil || got != "header.payload.signature" {
				t.Errorf("its holder reads %q, %v", got, err)
			}
			if got, err := OpenToken(token, naples.key); err == nil {
				t.Errorf("another cluster reads %q", got)
			}
			if err := CheckCredentialHolder(&authv1beta1.AuthParams{Token: token}, naples.key); err == nil || !strings.HasPrefix(err.Error(), "authParams.token: ") {
				t.Errorf("another cluster accepts it: %v", err)
			}
			changed := token.DeepCopy()
			changed.Sealed[len(changed.Sealed)-1] ^= 1
			if got, err := OpenToken(changed, rome.key); err == nil {
				t.Errorf("changed on its way, it is still read: %q", got)
			}
		})
	}
	rome := newHolder(t, Ed25519)
	for name, text := range map[string]string{
		"a second header": "a\r\nImpersonate-User: admin", "nothing": "", "too long": strings.Repeat("a", maxToken+1), "not ASCII": "a\xe9",
	} {
		if got, err := OpenToken(rome.sealedFor(t, text, ControlPlaneSubject("rome"), time.Hour), rome.key); err == nil {
			t.Errorf("%s: %.40q is taken for a token", name, got)
		}
	}
}

// TestTokensAreForOneSubjectAndKey: the provider keeps a token only while it is the one that the request would get now.
func TestTokensAreForOneSubjectAndKey(t *testing.T) {
	rome, other := newHolder(t, Ed25519), newHolder(t, Ed25519)
	subject := ResourceSliceSubject("gpu", "rome")
	params := &authv1beta1.AuthParams{Token: rome.sealedFor(t, "token", subject, 3*time.Hour)}
	request := rome.requestFor(t, subject.User, subject.Group)
	for name, c := range map[string]struct {
		request []byte
		subject Subject
		now     time.Duration
		good    bool
	}{
		"young":            {request, subject, time.Hour, true},
		"due":              {request, subject, 2 * time.Hour, false},
		"another key":      {other.requestFor(t, subject.User, subject.Group), subject, 0, false},
		"another slice":    {request, ResourceSliceSubject("cpu", "rome"), 0, false},
		"another consumer": {request, Subject{User: subject.User, Group: "naples"}, 0, false},
		"control plane":    {request, ControlPlaneSubject("rome"), 0, false},
		"no request":       {nil, subject, 0, false},
	} {
		if err := CheckCredential(params, c.request, c.subject, then.Add(c.now)); (err == nil) != c.good {
			t.Errorf("%s: %v, want good %t", name, err, c.good)
		}
	}
	if err := CheckIssuedToken(params.Token, request, subject); err != nil {
		t.Errorf("expired or not, it was issued: %v", err)
	}
}

// TestTokenSubjects: a token has the permissions of the certificate. A client that impersonates the user can't avoid the policies that recognize the
// group, because the user name contains the same prefix.
func TestTokenSubjects(t *testing.T) {
	if got, want := TokenSubject(ControlPlaneSubject("rome")), (Subject{User: "liqo.io:rome"}); got != want {
		t.Errorf("control plane: %+v, want %+v", got, want)
	}
	if slice := ResourceSliceSubject("gpu", "rome"); TokenSubject(slice) != slice {
		t.Errorf("slice: %+v, want %+v", TokenSubject(slice), slice)
	}
}

// TestRenewalOfTokens: tokens are renewed as certificates are, and an Identity may change from one to the other.
func TestRenewalOfTokens(t *testing.T) {
	rome := newHolder(t, Ed25519)
	subject := ControlPlaneSubject("rome")
	certificate := func(life time.Duration) *authv1beta1.AuthParams {
		return &authv1beta1.AuthParams{SignedCRT: rome.certificate(t, subject, life)}
	}
	token := func(life time.Duration) *authv1beta1.AuthParams {
		return &authv1beta1.AuthParams{Token: rome.sealedFor(t, "token", subject, life)}
	}
	for name, c := range map[string]struct {
		present, answer *authv1beta1.AuthParams
		now             time.Duration
		want            Renewal
	}{
		"young":                        {token(3 * time.Hour), nil, time.Hour, Renewal{At: then.Add(2 * time.Hour)}},
		"two thirds gone":              {token(3 * time.Hour), nil, 2 * time.Hour, Renewal{Ask: true}},
		"answered":                     {token(3 * time.Hour), token(4 * time.Hour), 2 * time.Hour, Renewal{Adopt: true}},
		"answered with the old":        {token(3 * time.Hour), token(3 * time.Hour), 2 * time.Hour, Renewal{Ask: true}},
		"from certificate to token":    {certificate(3 * time.Hour), token(4 * time.Hour), 2 * time.Hour, Renewal{Adopt: true}},
		"from token to certificate":    {token(3 * time.Hour), certificate(4 * time.Hour), 2 * time.Hour, Renewal{Adopt: true}},
		"answered with an empty token": {token(3 * time.Hour), &authv1beta1.AuthParams{Token: &authv1beta1.SealedToken{}}, 2 * time.Hour, Renewal{Ask: true}},
	} {
		t.Run(name, func(t *testing.T) {
			identity := &authv1beta1.Identity{Spec: authv1beta1.IdentitySpec{AuthParams: *c.present}}
			got, err := PlanRenewal(identity, &authv1beta1.Renew{Status: authv1beta1.RenewStatus{AuthParams: c.answer}}, then.Add(c.now))
			if err != nil || got != c.want {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
			if c.want.Adopt {
				Adopt(&identity.Spec.AuthParams, c.answer)
				identity.Spec.AuthParams.APIServer = "https://milan:6443"
				if err := CheckAuthParams(&identity.Spec.AuthParams); err != nil {
					t.Errorf("adopted: %v", err)
				}
			}
		})
	}
}

// TestKubeconfigWithToken: the kubeconfig has the token and whom to act as, and no certificate.
func TestKubeconfigWithToken(t *testing.T) {
	rome := newHolder(t, Ed25519)
	identity := &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Name: "resourceslice-gpu"},
		Spec: authv1beta1.IdentitySpec{ClusterID: "milan", AuthParams: authv1beta1.AuthParams{
			APIServer: "https://milan:6443", Token: rome.sealedFor(t, "t0ken", ResourceSliceSubject("gpu", "rome"), time.Hour),
		}},
	}
	kubeconfig, err := Kubeconfig(identity, rome.private)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"    token: \"t0ken\"\n", "    as: \"gpu-", "    as-groups:\n    - \"rome\"\n"} {
		if !strings.Contains(string(kubeconfig), want) {
			t.Errorf("it lacks %q:\n%s", want, kubeconfig)
		}
	}
	if strings.Contains(string(kubeconfig), "client-") {
		t.Errorf("it has a certificate or a key:\n%s", kubeconfig)
	}
	if _, err := Kubeconfig(identity, newHolder(t, Ed25519).private); err == nil || strings.Contains(err.Error(), "PRIVATE") {
		t.Errorf("with another key: %v", err)
	}
	identity.Spec.AuthParams.SignedCRT = []byte("certificate")
	if _, err := Kubeconfig(identity, rome.private); err == nil {
		t.Error("a certificate and a token are one too many")
	}
	if _, err := Recipient(rome.request(t, &x509.CertificateRequest{})); err != nil {
		t.Errorf("any request of a good key can be sealed for: %v", err)
	}
}

// TestOverdueRenewals: the status of the ForeignCluster and the alert agree from when on a renewal is overdue. A credential without an end is never
// overdue.
func TestOverdueRenewals(t *testing.T) {
	rome := newHolder(t, Ed25519)
	certificate := authv1beta1.AuthParams{SignedCRT: rome.certificate(t, ControlPlaneSubject("rome"), 40*time.Hour)}
	token := authv1beta1.AuthParams{Token: rome.sealedFor(t, "token", ControlPlaneSubject("rome"), 40*time.Hour)}
	for kind, params := range map[string]authv1beta1.AuthParams{KindCertificate: certificate, KindToken: token} {
		identity := &authv1beta1.Identity{Spec: authv1beta1.IdentitySpec{AuthParams: params}}
		for after, late := range map[time.Duration]bool{27 * time.Hour: false, 30*time.Hour - time.Second: false, 30 * time.Hour: true, 39 * time.Hour: true} {
			credential, err := CredentialOf(&params)
			if err != nil {
				t.Fatal(err)
			}
			trouble := renewalTrouble(identity, metav1.NewTime(then.Add(after)))
			if got := credential.Late(then.Add(after)); got != late || (trouble != "") != late {
				t.Errorf("a %s of 40 hours after %s: late is %t and the status says %q, want late %t", kind, after, got, trouble, late)
			}
		}
	}
	if (Credential{Kind: KindAccessKey}).Late(then.Add(1000 * time.Hour)) {
		t.Error("an access key of AWS is overdue for renewal")
	}

	text, err := charts.Files.ReadFile("files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	limit := regexp.MustCompile(`\(liqo_certificate_expiry_seconds / liqo_certificate_lifetime_seconds\) < ([0-9.]+)\n`).FindSubmatch(text)
	if limit == nil {
		t.Fatal("no alert compares the time until the expiry with the lifetime")
	}
	credential := Credential{From: then, Until: then.Add(40 * time.Hour)}
	left := float64(credential.Until.Sub(credential.LateAt())) / float64(credential.Until.Sub(credential.From))
	if got, err := strconv.ParseFloat(string(limit[1]), 64); err != nil || got != left {
		t.Errorf("the alert fires when less than %s of the lifetime is left (%v), want %g", limit[1], err, left)
	}
}
