package peering

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/peering/invite"
)

// paramsUntil returns the parameters of milan with a certificate of rome that is valid for the given time from then on.
func paramsUntil(t *testing.T, h holder, life time.Duration) *authv1beta1.AuthParams {
	t.Helper()
	return &authv1beta1.AuthParams{APIServer: "https://milan:6443", CA: h.public, SignedCRT: h.certificate(t, ControlPlaneSubject("rome"), life)}
}

// TestReplaceableCredentials: another enrollment replaces only a credential that the provider rejects, or one that has expired.
func TestReplaceableCredentials(t *testing.T) {
	rome := newHolder(t, Ed25519)
	valid, expired := paramsUntil(t, rome, 48*time.Hour), paramsUntil(t, rome, time.Hour)
	unreadable := &authv1beta1.AuthParams{SignedCRT: []byte("x")}
	token := &authv1beta1.AuthParams{Token: rome.sealedFor(t, "t", ControlPlaneSubject("rome"), time.Hour)}
	key := &authv1beta1.AuthParams{AwsConfig: &authv1beta1.AwsConfig{}}
	now := at(24 * time.Hour).Time
	for name, test := range map[string]struct {
		present  *authv1beta1.AuthParams
		accepted Acceptance
		want     error
		refused  bool
	}{
		"valid and accepted":              {valid, Accepted, ErrCredentialWorks, true},
		"valid and rejected":              {valid, Rejected, nil, false},
		"valid and unanswered":            {valid, Unanswered, ErrCredentialUnknown, true},
		"expired by our clock, accepted":  {expired, Accepted, ErrCredentialWorks, true},
		"expired and rejected":            {expired, Rejected, nil, false},
		"expired, the server has moved":   {expired, Unanswered, nil, false},
		"token that expired":              {token, Unanswered, nil, false},
		"token that expired, accepted":    {token, Accepted, ErrCredentialWorks, true},
		"unreadable":                      {unreadable, Unanswered, nil, false},
		"an access key that is rejected":  {key, Rejected, nil, true},
		"an access key that is no answer": {key, Unanswered, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckReplaceable(test.present, test.accepted, now)
			refuses(t, err, test.refused)
			if test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
}

// TestReplacements: what an enrollment offers replaces the credential only if it comes from the provider that granted the present one.
func TestReplacements(t *testing.T) {
	rome, milan, thief := newHolder(t, Ed25519), newHolder(t, Ed25519), newHolder(t, Ed25519)
	now := at(24 * time.Hour).Time
	change := func(life time.Duration, f func(*authv1beta1.AuthParams)) *authv1beta1.AuthParams {
		params := paramsUntil(t, rome, life)
		params.CA = milan.public
		if f != nil {
			f(params)
		}
		return params
	}
	bundle := append(append([]byte(nil), milan.public...), thief.public...)
	present := change(time.Hour, nil)
	trusted := change(time.Hour, func(p *authv1beta1.AuthParams) { p.CA = nil })
	for name, test := range map[string]struct {
		present, offered *authv1beta1.AuthParams
		want             string
	}{
		"another certificate": {present, change(48*time.Hour, nil), ""},
		"a token instead": {present, change(0, func(p *authv1beta1.AuthParams) {
			p.SignedCRT, p.Token = nil, rome.sealedFor(t, "t", ControlPlaneSubject("rome"), 48*time.Hour)
		}), ""},
		"another address with the same CA": {present, change(48*time.Hour, func(p *authv1beta1.AuthParams) { p.APIServer = "https://milan.example.org" }), ""},
		"the rest of a bundle":             {change(time.Hour, func(p *authv1beta1.AuthParams) { p.CA = bundle }), change(48*time.Hour, nil), ""},
		"the same CA in other words":       {present, change(48*time.Hour, func(p *authv1beta1.AuthParams) { p.CA = append([]byte("milan\n"), p.CA...) }), ""},
		"another CA":                       {present, change(48*time.Hour, func(p *authv1beta1.AuthParams) { p.CA = thief.public }), "liqoctl authenticate --remote-kubeconfig FILE --force"},
		"a CA more":                        {present, change(48*time.Hour, func(p *authv1beta1.AuthParams) { p.CA = bundle }), "a token replaces no provider"},
		"a CA that is none":                {present, change(48*time.Hour, func(p *authv1beta1.AuthParams) { p.CA = []byte("x") }), "a token replaces no provider"},
		"the CAs of the system instead":    {present, change(48*time.Hour, func(p *authv1beta1.AuthParams) { p.CA = nil }), "has the CA of the system"},
		"a CA instead of the system's":     {trusted, change(48*time.Hour, nil), "a token replaces no provider"},
		"the CAs of the system still":      {trusted, change(48*time.Hour, func(p *authv1beta1.AuthParams) { p.CA, p.APIServer = nil, "https://MILAN:6443/" }), ""},
		"another host of the system's CAs": {trusted, change(48*time.Hour, func(p *authv1beta1.AuthParams) { p.CA, p.APIServer = nil, "https://thief" }), "its API server is thief"},
		"one that has expired too":         {present, change(2*time.Hour, nil), "its certificate has expired too"},
		"nothing":                          {present, &authv1beta1.AuthParams{CA: milan.public}, "authParams.signedCRT"},
		"an access key": {present, change(0, func(p *authv1beta1.AuthParams) {
			p.SignedCRT, p.AwsConfig = nil, &authv1beta1.AwsConfig{
				AwsAccessKeyID: "AKIAIOSFODNN7EXAMPLE", AwsSecretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", AwsRegion: "eu-south-1", AwsClusterName: "milan",
				AwsUserArn: "arn:aws:iam::123456789012:user/rome",
			}
		}), "access key of AWS"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckReplacement(test.present, test.offered, now)
			refuses(t, err, test.want != "")
			if err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// TestReenrollmentIsForOneCredential: the annotation permits to replace this credential with this invitation, and nothing else.
func TestReenrollmentIsForOneCredential(t *testing.T) {
	rome := newHolder(t, Ed25519)
	invitation := &corev1.Secret{Data: map[string][]byte{invite.URLKey: []byte("https://milan"), invite.TokenKey: []byte("one")}}
	identity := &authv1beta1.Identity{Spec: authv1beta1.IdentitySpec{Type: authv1beta1.IdentityControlPlane, AuthParams: *paramsUntil(t, rome, time.Hour)}}
	if WantsReenrollment(identity, invitation) {
		t.Error("without the annotation")
	}
	identity.Annotations = map[string]string{AnnotationReenroll: ReenrollmentOf(&identity.Spec.AuthParams, invitation)}
	for name, test := range map[string]struct {
		change func(*authv1beta1.Identity, *corev1.Secret)
		want   bool
	}{
		"as written":        {func(*authv1beta1.Identity, *corev1.Secret) {}, true},
		"owned by the peer": {func(_ *authv1beta1.Identity, s *corev1.Secret) { s.Labels = map[string]string{"a": "b"} }, true},
		"another token":     {func(_ *authv1beta1.Identity, s *corev1.Secret) { s.Data[invite.TokenKey] = []byte("two") }, false},
		"another address":   {func(_ *authv1beta1.Identity, s *corev1.Secret) { s.Data[invite.URLKey] = []byte("https://thief") }, false},
		"a proxy":           {func(_ *authv1beta1.Identity, s *corev1.Secret) { s.Data[invite.ProxyKey] = []byte("http://thief:1") }, false},
		"renewed meanwhile": {func(i *authv1beta1.Identity, _ *corev1.Secret) {
			i.Spec.AuthParams.SignedCRT = rome.certificate(t, ControlPlaneSubject("rome"), 2*time.Hour)
		}, false},
		"of a ResourceSlice": {func(i *authv1beta1.Identity, _ *corev1.Secret) { i.Spec.Type = authv1beta1.IdentityResourceSlice }, false},
		"a plain yes":        {func(i *authv1beta1.Identity, _ *corev1.Secret) { i.Annotations[AnnotationReenroll] = "true" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			i, s := identity.DeepCopy(), invitation.DeepCopy()
			test.change(i, s)
			if got := WantsReenrollment(i, s); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// TestNeedsReenrollment: liqoctl asks for another enrollment only if the credential has expired, or its ForeignCluster says that it is not accepted.
func TestNeedsReenrollment(t *testing.T) {
	rome := newHolder(t, Ed25519)
	now := at(24 * time.Hour).Time
	identity := func(params *authv1beta1.AuthParams, kubeconfig bool) *authv1beta1.Identity {
		i := &authv1beta1.Identity{Spec: authv1beta1.IdentitySpec{AuthParams: *params}}
		if kubeconfig {
			i.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "k"}
		}
		return i
	}
	foreign := func(status corev1beta1.ConditionStatus) *corev1beta1.ForeignCluster {
		f := &corev1beta1.ForeignCluster{}
		f.Status.Modules.Authentication.Conditions = []corev1beta1.Condition{{Type: corev1beta1.AuthIdentityControlPlaneStatus, Status: status}}
		return f
	}
	valid, expired := paramsUntil(t, rome, 48*time.Hour), paramsUntil(t, rome, time.Hour)
	for name, test := range map[string]struct {
		identity *authv1beta1.Identity
		foreign  *corev1beta1.ForeignCluster
		want     bool
	}{
		"valid, nothing known":   {identity(valid, true), nil, false},
		"valid and Ready":        {identity(valid, true), foreign(corev1beta1.StatusReady), false},
		"valid, not accepted":    {identity(valid, true), foreign(corev1beta1.StatusNotReady), true},
		"expired, nothing known": {identity(expired, true), nil, true},
		"expired, no kubeconfig": {identity(expired, false), nil, false},
		"not granted":            {identity(&authv1beta1.AuthParams{}, true), foreign(corev1beta1.StatusNotReady), false},
		"a rejected access key":  {identity(&authv1beta1.AuthParams{AwsConfig: &authv1beta1.AwsConfig{}}, true), foreign(corev1beta1.StatusNotReady), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NeedsReenrollment(test.identity, test.foreign, now); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
