package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/cli/handshake"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/test/clitest"
)

// inviteBack: what a provider gets that is used in-band leads through the tunnel, is for it alone, and goes with the Tenant of the consumer.
func (n networks) inviteBack(p *session.Pair) {
	t := n.T
	expose := func(ip, service, address string, port int32) []client.Object {
		exposed := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: ip}, Spec: ipamv1alpha1.IPSpec{IP: "10.96.0.8"}}
		behind := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: service}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}}}
		clitest.Create(t, n.rome, exposed, behind)
		exposed.Status.IP = address
		if err := n.rome.Status().Update(t.Context(), exposed); err != nil {
			t.Fatal(err)
		}
		return []client.Object{exposed, behind}
	}
	made := append(expose(ipamv1alpha1.IPAuthentication, invite.Service, "10.70.0.8", 443), expose(ipamv1alpha1.IPAPIServerProxy, handshake.ProxyService, "10.70.0.7", 8118)...)
	namespace := api.TenantNamespace("rome")
	tenant := &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rome", Labels: map[string]string{api.LabelRemoteClusterID: "rome"}},
		Spec:       authv1beta1.TenantSpec{ClusterID: "rome"},
	}
	clitest.Create(t, n.milan, tenant)
	if err := inviteProvider(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: namespace, Name: invite.Secret}
	var secret, again corev1.Secret
	if err := n.milan.Get(t.Context(), key, &secret); err != nil {
		t.Fatal(err)
	}
	// milan sees rome's external CIDR at 10.71.0.0/16.
	for at, want := range map[string]string{invite.URLKey: "https://10.71.0.8:443", invite.ProxyKey: "http://10.71.0.7:8118"} {
		if got := string(secret.Data[at]); got != want {
			t.Errorf("data.%s is %s, want %s", at, got, want)
		}
	}
	token, err := invite.ParseToken(string(secret.Data[invite.TokenKey]))
	if err != nil || token.Consumer != "milan" || token.Pin == nil {
		t.Errorf("%+v, %v", token, err)
	}
	if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != tenant.UID {
		t.Errorf("owners %v", secret.OwnerReferences)
	}
	if err := inviteProvider(t.Context(), p); err != nil {
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
	token := func(consumer string, left time.Duration) invite.Token {
		return invite.Token{ID: "AAECAwQFBgcI", Expires: now.Add(left), Consumer: consumer, Pin: bytes.Repeat([]byte{7}, 32)}
	}
	of := func(consumer string, left time.Duration) *corev1.Secret {
		return &corev1.Secret{Data: map[string][]byte{invite.TokenKey: []byte(token(consumer, left).Text(key))}}
	}
	used, err := invite.Redeem(nil, token("milan", invite.MaxTokenLifetime), "milan", now)
	if err != nil {
		t.Fatal(err)
	}
	spent, err := invite.SpendTokens(used, "milan", now, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		secret          *corev1.Secret
		key, usedTokens []byte
		want            bool
	}{
		"none":                        {&corev1.Secret{}, key, nil, false},
		"new":                         {of("milan", invite.MaxTokenLifetime), key, nil, true},
		"used":                        {of("milan", invite.MaxTokenLifetime), key, used, true},
		"of a peering that has ended": {of("milan", invite.MaxTokenLifetime), key, spent, false},
		"of a Secret replaced since":  {of("milan", invite.MaxTokenLifetime), []byte("another"), nil, false},
		"old":                         {of("milan", invite.MaxTokenLifetime/3), key, nil, false},
		"another's":                   {of("naples", invite.MaxTokenLifetime), key, nil, false},
	} {
		tokens := &corev1.Secret{Data: map[string][]byte{invite.SecretKey: test.key, invite.UsedKey: test.usedTokens}}
		if got := lasts(test.secret, tokens, "milan", now); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestInvitations: liqoctl peer NAME enrolls with an invitation, and again if the provider no longer accepts the credential. If the invitation has expired, the
// command says so, and how to get another one, before it changes anything. A credential that the provider accepts needs no invitation.
func TestInvitations(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	installed := w.snapshot()
	enrolled := w.in(t, installed, lawIntroduction, nil).left
	rome, namespace := w.clusters["rome"].client, api.TenantNamespace("milan")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	invitedFor := func(left time.Duration) func() {
		return func() {
			token := invite.Token{ID: "AAECAwQFBgcI", Expires: time.Now().Add(left), Consumer: "rome", Pin: bytes.Repeat([]byte{7}, 32)}
			must(rome.Create(context.Background(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: invite.Secret,
					Labels: map[string]string{invite.Label: api.True, api.LabelRemoteClusterID: "milan"},
				},
				Data: map[string][]byte{invite.URLKey: []byte("https://192.0.2.2"), invite.TokenKey: []byte(token.Text([]byte("secret")))},
			}))
		}
	}
	expired := func() {
		identity := &authv1beta1.Identity{}
		must(rome.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: peering.ControlPlaneIdentityName("milan")}, identity))
		issued := time.Now().Add(-time.Hour)
		identity.Spec.AuthParams = authv1beta1.AuthParams{Token: &authv1beta1.SealedToken{
			Sealed: []byte("sealed"), IssuedAt: metav1.NewTime(issued), ExpiresAt: metav1.NewTime(issued.Add(time.Minute)),
		}}
		must(rome.Update(context.Background(), identity))
	}
	tenantNamespace := func() {
		must(rome.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: namespace, Labels: map[string]string{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: "milan"},
		}}))
	}
	const cure = "it expired at 1999-12-31T23:00:00Z. Run liqoctl generate peer-command --consumer-cluster-id rome on milan, and here the command that it prints"
	for _, test := range []struct {
		name    string
		at      worldSnapshot
		prepare []func()
		code    int
		said    []string
	}{
		{"not invited", installed, []func(){tenantNamespace}, 1, []string{"cluster milan has not invited this one", "generate peer-command"}},
		{"invited", installed, []func(){tenantNamespace, invitedFor(time.Hour)}, 0, []string{"Cluster milan has admitted this cluster"}},
		{"invited long ago", installed, []func(){tenantNamespace, invitedFor(-time.Hour)}, 1, []string{"no longer admits this cluster", cure}},
		{"enrolled", enrolled, nil, 0, nil},
		{"enrolled, invited long ago", enrolled, []func(){invitedFor(-time.Hour)}, 0, nil},
		{"not accepted, invited", enrolled, []func(){expired, invitedFor(time.Hour)}, 0, []string{"Cluster milan has admitted this cluster again: the token is replaced"}},
		{"not accepted, invited long ago", enrolled, []func(){expired, invitedFor(-time.Hour)}, 1, []string{
			"cluster milan does not accept the token of this cluster any more, and the invitation of cluster milan, Secret " + invite.Secret, cure,
		}},
	} {
		ran := w.in(t, test.at, "peer milan"+lawOne, func() {
			for _, prepare := range test.prepare {
				prepare()
			}
		})
		if ran.code != test.code || test.code != 0 && ran.wrote != 0 {
			t.Errorf("%s: code %d after %d changes: %s", test.name, ran.code, ran.wrote, ran.said)
		}
		for _, want := range test.said {
			if !strings.Contains(ran.said+ran.out, want) {
				t.Errorf("%s: no %q in %s", test.name, want, ran.said)
			}
		}
		const node = "offloading.liqo.io/v1beta1/virtualnodes liqo-tenant-milan/milan"
		if have, want := ran.left.object(node) != nil, test.code == 0 || test.at.object(node) != nil; have != want {
			t.Errorf("%s: code %d, and a virtual node: %t", test.name, ran.code, have)
		}
	}
}

// TestInvitationBack: with --in-band --invite, the provider gets an invitation that leads through the tunnel and is for the provider alone. A second run keeps it.
// With it, an administrator of the provider peers in turn. Without an authentication service, the peering succeeds with a warning.
func TestInvitationBack(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	const (
		command = "peer --in-band --invite" + lawBoth
		secret  = "/v1/secrets liqo-tenant-rome/" + invite.Secret
	)
	w := installedWorld(t)
	bare := w.snapshot()
	clitest.Create(t, w.clusters["rome"].client, &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: ipamv1alpha1.IPAuthentication}})
	first := w.in(t, w.snapshot(), command, nil)
	invitation := first.left["milan"].objects[secret]
	if first.code != 0 || invitation == nil || !strings.Contains(first.said, "Cluster milan may use resources of rome too") {
		t.Fatalf("code %d: %v: %s", first.code, invitation, first.said)
	}
	data := nested(invitation, "data")
	decoded := func(key string) string {
		text, _ := data[key].(string)
		plain, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Error(err)
		}
		return string(plain)
	}
	if url, proxy := decoded(invite.URLKey), decoded(invite.ProxyKey); !strings.HasPrefix(url, "https://10.") || !strings.HasSuffix(url, ":443") ||
		!strings.HasPrefix(proxy, "http://10.") || !strings.HasSuffix(proxy, ":8118") {
		t.Errorf("the invitation leads to %s, through %s", url, proxy)
	}
	if token, err := invite.ParseToken(decoded(invite.TokenKey)); err != nil || token.Consumer != "milan" {
		t.Errorf("the token is for %q, %v", token.Consumer, err)
	}
	if owners, _ := nested(invitation, "metadata")["ownerReferences"].([]any); len(owners) != 1 {
		t.Errorf("the invitation is not deleted with the Tenant: %v", owners)
	}

	again := w.in(t, first.left, command, nil)
	if again.code != 0 || !maps.Equal(nested(again.left["milan"].objects[secret], "data"), data) {
		t.Errorf("a second run replaces the invitation, code %d: %s", again.code, again.said)
	}
	back := w.in(t, first.left, "peer rome --kubeconfig %milan", nil)
	if back.code != 0 || !strings.Contains(back.said, "Cluster rome has admitted this cluster") {
		t.Errorf("peering in turn, code %d: %s", back.code, back.said)
	}

	refused := w.in(t, bare, command, func() {
		if err := w.clusters["rome"].client.Delete(context.Background(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: invite.Service}}); err != nil {
			t.Error(err)
		}
	})
	if refused.code != 0 || refused.left["milan"].objects[secret] != nil || !strings.Contains(refused.said, "Cluster milan is not invited to use resources of rome too") {
		t.Errorf("without an authentication service, code %d: %s", refused.code, refused.said)
	}
}
