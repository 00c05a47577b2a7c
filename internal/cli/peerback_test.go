package cli

import (
	"bytes"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/peering"
)

// inviteBack: what a provider gets that is used in-band leads through the tunnel, is for it alone, and goes with the Tenant of the consumer.
func (n networks) inviteBack(p *pair) {
	t := n.T
	expose := func(ip, service, address string, port int32) []client.Object {
		exposed := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: ip}, Spec: ipamv1alpha1.IPSpec{IP: "10.96.0.8"}}
		behind := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: service}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}}}
		create(t, n.rome, exposed, behind)
		exposed.Status.IP = address
		if err := n.rome.Status().Update(t.Context(), exposed); err != nil {
			t.Fatal(err)
		}
		return []client.Object{exposed, behind}
	}
	made := append(expose(ipamv1alpha1.IPAuthentication, peering.EnrollmentService, "10.70.0.8", 443), expose(ipamv1alpha1.IPAPIServerProxy, proxyService, "10.70.0.7", 8118)...)
	namespace := api.TenantNamespace("rome")
	tenant := &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rome", Labels: map[string]string{api.LabelRemoteClusterID: "rome"}},
		Spec:       authv1beta1.TenantSpec{ClusterID: "rome"},
	}
	create(t, n.milan, tenant)
	if err := p.invite(t.Context()); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: namespace, Name: peering.InvitationSecret}
	var secret, again corev1.Secret
	if err := n.milan.Get(t.Context(), key, &secret); err != nil {
		t.Fatal(err)
	}
	// milan sees rome's external CIDR at 10.71.0.0/16.
	for at, want := range map[string]string{peering.InvitationURLKey: "https://10.71.0.8:443", peering.InvitationProxyKey: "http://10.71.0.7:8118"} {
		if got := string(secret.Data[at]); got != want {
			t.Errorf("data.%s is %s, want %s", at, got, want)
		}
	}
	token, err := peering.ParseToken(string(secret.Data[peering.InvitationTokenKey]))
	if err != nil || token.Consumer != "milan" || token.Pin == nil {
		t.Errorf("%+v, %v", token, err)
	}
	if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != tenant.UID {
		t.Errorf("owners %v", secret.OwnerReferences)
	}
	if err := p.invite(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.milan.Get(t.Context(), key, &again); err != nil || again.ResourceVersion != secret.ResourceVersion {
		t.Errorf("an invitation that lasts was replaced: %v", err)
	}
	for _, o := range append(made, tenant) {
		c := n.rome.Client
		if o == client.Object(tenant) {
			c = n.milan.Client
		}
		if err := c.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.milan.Delete(t.Context(), &secret); err != nil {
		t.Fatal(err)
	}
	n.has(n.refused(n.in(n.milan, "peer rome")), "cluster rome has not invited this one", "generate peer-command")
}

// TestInvitationsAreRenewed: another invitation is created after half of the token's lifetime, and when the token no longer admits the consumer.
func TestInvitationsAreRenewed(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	key := []byte("secret")
	token := func(consumer string, left time.Duration) peering.Token {
		return peering.Token{ID: "AAECAwQFBgcI", Expires: now.Add(left), Consumer: consumer, Pin: bytes.Repeat([]byte{7}, 32)}
	}
	of := func(consumer string, left time.Duration) *corev1.Secret {
		return &corev1.Secret{Data: map[string][]byte{peering.InvitationTokenKey: []byte(token(consumer, left).Text(key))}}
	}
	used, err := peering.Redeem(nil, token("milan", maxTokenLifetime), "milan", now)
	if err != nil {
		t.Fatal(err)
	}
	spent, err := peering.SpendTokens(used, "milan", now, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		secret          *corev1.Secret
		key, usedTokens []byte
		want            bool
	}{
		"none":                        {&corev1.Secret{}, key, nil, false},
		"new":                         {of("milan", maxTokenLifetime), key, nil, true},
		"used":                        {of("milan", maxTokenLifetime), key, used, true},
		"of a peering that has ended": {of("milan", maxTokenLifetime), key, spent, false},
		"of a Secret replaced since":  {of("milan", maxTokenLifetime), []byte("another"), nil, false},
		"old":                         {of("milan", maxTokenLifetime/3), key, nil, false},
		"another's":                   {of("naples", maxTokenLifetime), key, nil, false},
	} {
		tokens := &corev1.Secret{Data: map[string][]byte{peering.EnrollmentSecretKey: test.key, peering.EnrollmentUsedKey: test.usedTokens}}
		if got := lasts(test.secret, tokens, "milan", now); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
