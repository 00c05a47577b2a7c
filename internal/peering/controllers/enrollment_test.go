package controllers

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/enrollment"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/test/apitest"
)

// opened is the authentication service of a cluster, as its administrator knows it.
type opened struct {
	options enrollment.Options
	url     string
	log     *bytes.Buffer
}

// open runs the cluster's authentication service, with the permissions of its controller manager.
func (c *cluster) open(t *testing.T) *opened {
	t.Helper()
	as := rest.CopyConfig(c.config)
	as.Impersonate = rest.ImpersonationConfig{UserName: controllerManager, Groups: []string{"system:authenticated"}}
	own := apitest.Client(t, as)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &opened{url: "https://" + listener.Addr().String(), log: &bytes.Buffer{}}
	lines := make(chan string, 1000)
	o.options = enrollment.Options{
		ClusterID: c.id, Namespace: api.Namespace, Client: own, Reader: own, Now: c.now, Random: rand.Reader,
		Log: funcr.New(func(_, args string) {
			select {
			case lines <- args:
			default:
			}
		}, funcr.Options{}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- enrollment.New(o.options).Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the enrollment of %s ended: %v", c.id, err)
		}
		close(lines)
		for line := range lines {
			if strings.Contains(line, "liqo1.") {
				t.Errorf("a token is in the log: %s", line)
			}
		}
	})
	return o
}

// token makes one as liqoctl generate peer-command does.
func (o *opened) token(t *testing.T, change func(*invite.Token)) string {
	t.Helper()
	pair, err := enrollment.EnsureCertificate(t.Context(), &o.options)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	token := invite.Token{Expires: o.options.Now().Add(time.Hour), Pin: invite.PinOf(certificate)}
	if change != nil {
		change(&token)
	}
	text, err := enrollment.Issue(t.Context(), &o.options, &token)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// inviteCluster gives rome an invitation of milan, and an Identity to be completed.
func inviteCluster(t *testing.T, rome, milan *cluster, url, token, proxy string) *authv1beta1.Identity {
	t.Helper()
	if err := rome.Create(t.Context(), rome.tenantNamespace(milan)); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	rome.create(t, &corev1.Secret{
		ObjectMeta: rome.meta(milan, invite.Secret, invite.Label),
		Data:       map[string][]byte{invite.URLKey: []byte(url), invite.TokenKey: []byte(token), invite.ProxyKey: []byte(proxy)},
	})
	identity := &authv1beta1.Identity{
		ObjectMeta: rome.meta(milan, peering.ControlPlaneIdentityName(milan.id)),
		Spec:       authv1beta1.IdentitySpec{ClusterID: milan.id, Type: authv1beta1.IdentityControlPlane},
	}
	rome.create(t, identity)
	return identity
}

// removeInvitation deletes the invitation of a provider. After that, an Identity uses the next invitation only.
func (c *cluster) removeInvitation(t *testing.T, provider *cluster) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: c.meta(provider, invite.Secret)}
	c.delete(t, secret)
	c.gone(t, secret)
}

// TestEnrollmentOnAPIServer: a token is all that two administrators exchange, and the result is the same peering as without enrollment.
func TestEnrollmentOnAPIServer(t *testing.T) {
	rome, milan := newPair(t)
	entry := milan.open(t)
	token := entry.token(t, nil)
	identity := inviteCluster(t, rome, milan, entry.url, token, "")
	eventually(t, rome, identity, "a kubeconfig", func(i *authv1beta1.Identity) bool {
		return i.Status.KubeconfigSecretRef != nil && meta.IsStatusConditionTrue(i.Status.Conditions, kube.ConditionReady)
	})
	if identity.Spec.Namespace != api.TenantNamespace(rome.id) {
		t.Errorf("the namespace in milan is %q, want %q", identity.Spec.Namespace, api.TenantNamespace(rome.id))
	}
	_, public := rome.key(t)
	tenant := eventually(t, milan, &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)}, "admitted", func(*authv1beta1.Tenant) bool { return true })
	if !bytes.Equal(tenant.Spec.PublicKey, public) {
		t.Error("the Tenant has another key than rome")
	}
	rome.create(t, sliceOf(rome, milan))
	eventually(t, rome, &authv1beta1.ResourceSlice{ObjectMeta: rome.meta(milan, "milan")}, "granted", func(s *authv1beta1.ResourceSlice) bool {
		return peering.ConditionOf(&s.Status, authv1beta1.ResourceSliceResources) == authv1beta1.ResourceSliceAccepted
	})

	// The same once more asks for nothing new: neither a Tenant nor a signature.
	certificate := identity.Spec.AuthParams.SignedCRT
	rome.delete(t, identity)
	rome.gone(t, &authv1beta1.Identity{ObjectMeta: rome.meta(milan, identity.Name)})
	again := &authv1beta1.Identity{ObjectMeta: rome.meta(milan, identity.Name), Spec: authv1beta1.IdentitySpec{ClusterID: milan.id, Type: authv1beta1.IdentityControlPlane}}
	rome.create(t, again)
	eventually(t, rome, again, "a kubeconfig", func(i *authv1beta1.Identity) bool { return i.Status.KubeconfigSecretRef != nil })
	if !bytes.Equal(again.Spec.AuthParams.SignedCRT, certificate) {
		t.Error("the provider signed again")
	}

	// The way through a tunnel that the invitation names becomes that of the identity.
	rome.delete(t, again)
	rome.gone(t, &authv1beta1.Identity{ObjectMeta: rome.meta(milan, identity.Name)})
	rome.removeInvitation(t, milan)
	const proxy = "http://10.71.0.9:8118"
	inBand := inviteCluster(t, rome, milan, entry.url, token, proxy)
	eventually(t, rome, inBand, "a way through the tunnel", func(i *authv1beta1.Identity) bool {
		return i.Spec.AuthParams.ProxyURL != nil && *i.Spec.AuthParams.ProxyURL == proxy && i.Status.KubeconfigSecretRef != nil
	})
}

// TestEvictedConsumersOnAPIServer: when the provider deletes a Tenant, tokens issued before do not admit its consumer again, whether it used them or
// not. The error names the cure.
func TestEvictedConsumersOnAPIServer(t *testing.T) {
	rome, milan := newPair(t)
	entry := milan.open(t)
	token := entry.token(t, nil)
	second := entry.token(t, func(token *invite.Token) { token.Consumer = rome.id })
	third := entry.token(t, nil)
	identity := inviteCluster(t, rome, milan, entry.url, token, "")
	granted := func(i *authv1beta1.Identity) bool { return i.Status.KubeconfigSecretRef != nil }
	eventually(t, rome, identity, "a kubeconfig", granted)
	tenant := &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)}
	milan.delete(t, tenant)
	milan.gone(t, tenant)
	anew := func(token string) *authv1beta1.Identity {
		rome.delete(t, identity)
		rome.gone(t, &authv1beta1.Identity{ObjectMeta: rome.meta(milan, identity.Name)})
		rome.removeInvitation(t, milan)
		return inviteCluster(t, rome, milan, entry.url, token, "")
	}
	for _, before := range []string{token, second, third} {
		identity = anew(before)
		eventually(t, rome, identity, "refused, with the cure", func(i *authv1beta1.Identity) bool {
			ready := meta.FindStatusCondition(i.Status.Conditions, kube.ConditionReady)
			return ready != nil && ready.Reason == reasons.InvitationRefused && strings.Contains(ready.Message, "has ended") && strings.Contains(ready.Message,
				"liqoctl generate peer-command")
		})
	}
	if err := milan.Get(t.Context(), client.ObjectKeyFromObject(tenant), tenant); !apierrors.IsNotFound(err) {
		t.Errorf("the Tenant of a spent token: %v, want none", err)
	}
	milan.ahead.Add(int64(2 * time.Second)) // a token of the same second counts as made before the end
	identity = anew(entry.token(t, nil))
	eventually(t, rome, identity, "a kubeconfig by another token", granted)
}

// TestAttacksOnEnrollmentOnAPIServer lists attacks on the authentication service with the response, and checks that the provider creates nothing for
// them.
func TestAttacksOnEnrollmentOnAPIServer(t *testing.T) {
	milan := newCluster(t, "milan")
	milan.run(t)
	entry := milan.open(t)
	_, public, key := newKey(t)
	requestNonce := func(cluster, token string) (*peering.Nonce, error) {
		parsed, err := invite.ParseToken(token)
		if err != nil {
			parsed = invite.Token{Pin: pinOf(t, entry)}
		}
		nonce := &peering.Nonce{}
		return nonce, enrollment.Ask(t.Context(), entry.url, parsed, peering.EnrollmentNoncePath, &peering.NonceRequest{Cluster: cluster, Token: token}, nonce)
	}
	apply := func(cluster, token string, change func(*peering.EnrollRequest)) error {
		nonce, err := requestNonce(cluster, token)
		if err != nil {
			return err
		}
		signature, err := peering.Sign(key, nonce.Nonce)
		if err != nil {
			t.Fatal(err)
		}
		request, err := peering.NewRequest(rand.Reader, key, peering.ControlPlaneSubject(cluster))
		if err != nil {
			t.Fatal(err)
		}
		enrollRequest := &peering.EnrollRequest{NonceRequest: peering.NonceRequest{Cluster: cluster, Token: token}, PublicKey: public, CSR: request, Signature: signature}
		if change != nil {
			change(enrollRequest)
		}
		parsed, err := invite.ParseToken(token)
		if err != nil {
			t.Fatal(err)
		}
		return enrollment.Ask(t.Context(), entry.url, parsed, peering.EnrollmentTenantPath, enrollRequest, &peering.Admission{})
	}
	admitted := entry.token(t, nil)
	if err := apply("naples", admitted, nil); err != nil {
		t.Fatalf("naples, which has a token, is not admitted: %v", err)
	}
	// turin is a provider of milan, and paris has a namespace that milan's administrator made.
	for _, id := range []string{"turin", "paris"} {
		milan.create(t, milan.tenantNamespace(&cluster{id: id}))
	}
	milan.create(t, &authv1beta1.Identity{
		ObjectMeta: milan.meta(&cluster{id: "turin"}, peering.ControlPlaneIdentityName("turin")),
		Spec:       authv1beta1.IdentitySpec{ClusterID: "turin", Type: authv1beta1.IdentityControlPlane},
	})
	before := count(t, milan)
	for name, attack := range map[string]struct {
		do   func() error
		want string
	}{
		"a guessed token": {func() error {
			_, err := requestNonce("thief", invite.Token{ID: "AAECAwQFBgcI", Expires: milan.now().Add(time.Hour), Pin: pinOf(t, entry)}.Text([]byte("guess")))
			return err
		}, "unknown here"},
		"no token": {func() error { _, err := requestNonce("thief", ""); return err }, "not a token"},
		"an expired token": {func() error {
			_, err := requestNonce("thief", entry.token(t, func(t *invite.Token) { t.Expires = milan.now().Add(-time.Second) }))
			return err
		}, "expired"},
		"a stolen token": {func() error { _, err := requestNonce("thief", admitted); return err }, "another cluster has used it"},
		"one for another": {func() error {
			_, err := requestNonce("thief", entry.token(t, func(t *invite.Token) { t.Consumer = "venice" }))
			return err
		}, "created for another cluster"},
		"a name of ours":      {func() error { _, err := requestNonce("milan", entry.token(t, nil)); return err }, "this cluster itself"},
		"a name that is none": {func() error { _, err := requestNonce("../kube-system", entry.token(t, nil)); return err }, "no cluster ID"},
		"the place of naples": {func() error {
			_, other, _ := newKey(t)
			return apply("naples", entry.token(t, nil), func(a *peering.EnrollRequest) { a.PublicKey = other })
		}, "with another key"},
		"the name of a provider":                 {func() error { return apply("turin", entry.token(t, nil), nil) }, "--consumer-cluster-id turin"},
		"the name of a cluster that is expected": {func() error { _, err := requestNonce("paris", entry.token(t, nil)); return err }, "--consumer-cluster-id paris"},
		"another's signature": {func() error {
			return apply("naples", admitted, func(a *peering.EnrollRequest) { a.Signature[3] ^= 1 })
		}, "signature"},
	} {
		t.Run(name, func(t *testing.T) {
			err := attack.do()
			if !errors.Is(err, enrollment.ErrRefused) || !strings.Contains(err.Error(), attack.want) {
				t.Errorf("error %v, want a refusal with %q", err, attack.want)
			}
		})
	}
	if after := count(t, milan); after != before {
		t.Errorf("there are %d Tenants and tenant namespaces, want %d as before", after, before)
	}

	t.Run("a man in the middle", func(t *testing.T) {
		text := entry.token(t, func(t *invite.Token) { t.Pin = make([]byte, sha256.Size) })
		token, err := invite.ParseToken(text)
		if err != nil {
			t.Fatal(err)
		}
		err = enrollment.Ask(t.Context(), entry.url, token, peering.EnrollmentNoncePath, &peering.NonceRequest{Cluster: "venice", Token: text}, &peering.Nonce{})
		if !errors.Is(err, invite.ErrPin) || !errors.Is(err, enrollment.ErrRefused) {
			t.Errorf("error %v, want %v", err, invite.ErrPin)
		}
		if _, err := enrollment.EnsureSecret(t.Context(), &entry.options); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a token older than the Secret", func(t *testing.T) {
		old := entry.token(t, nil)
		milan.delete(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: invite.KeySecret}})
		if _, err := requestNonce("venice", old); !errors.Is(err, enrollment.ErrRefused) || !strings.Contains(err.Error(), "unknown here") {
			t.Errorf("error %v, want a refusal", err)
		}
		if _, err := requestNonce("venice", entry.token(t, nil)); err != nil {
			t.Errorf("a new one: %v", err)
		}
	})
	stranger := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, //nolint:gosec // as a stranger does
	}}
	post := func(path string, body io.Reader) (int, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, entry.url+path, body)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := stranger.Do(request)
		if err != nil {
			return 0, err
		}
		defer func() { _ = answer.Body.Close() }()
		_, err = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode, err
	}
	t.Run("a huge body", func(t *testing.T) {
		status, err := post(peering.EnrollmentTenantPath, strings.NewReader(strings.Repeat(" ", 1<<20)))
		if err == nil && status != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d, want %d or a closed connection", status, http.StatusRequestEntityTooLarge)
		}
	})
	t.Run("no JSON", func(t *testing.T) {
		if status, err := post(peering.EnrollmentNoncePath, strings.NewReader("<xml/>")); err != nil || status != http.StatusBadRequest {
			t.Errorf("status %d, error %v, want %d", status, err, http.StatusBadRequest)
		}
	})
	t.Run("a flood", func(t *testing.T) {
		refused := 0
		for range 60 {
			if status, err := post(peering.EnrollmentNoncePath, strings.NewReader("{}")); err != nil || status == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused < 30 {
			t.Errorf("%d of 60 requests of one source were refused, want at least 30", refused)
		}
	})
}

func pinOf(t *testing.T, o *opened) []byte {
	t.Helper()
	token, err := invite.ParseToken(o.token(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	return token.Pin
}

// count is how many Tenants and tenant namespaces there are.
func count(t *testing.T, c *cluster) int {
	t.Helper()
	tenants, namespaces := &authv1beta1.TenantList{}, &corev1.NamespaceList{}
	if err := errors.Join(c.List(t.Context(), tenants), c.List(t.Context(), namespaces, client.HasLabels{api.LabelTenantNamespace})); err != nil {
		t.Fatal(err)
	}
	return len(tenants.Items) + len(namespaces.Items)
}

// TestInvalidInvitationsOnAPIServer: the condition of the Identity says what is wrong with the invitation.
func TestInvalidInvitationsOnAPIServer(t *testing.T) {
	rome, milan, naples := newCluster(t, "rome"), newCluster(t, "milan"), newCluster(t, "naples")
	rome.run(t)
	milan.run(t)
	entry := milan.open(t)
	closed, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "https://" + closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		provider       *cluster
		url, token     string
		reason, within string
		proxy          string
	}{
		"no URL":               {milan, "milan", entry.token(t, nil), reasons.InvitationInvalid, "want https://host[:port]", ""},
		"no token":             {milan, entry.url, "secret", reasons.InvitationInvalid, "data.token", ""},
		"expired":              {milan, entry.url, entry.token(t, func(t *invite.Token) { t.Expires = time.Now().Add(-time.Hour) }), reasons.InvitationExpired, "generate peer-command", ""},
		"another's":            {milan, entry.url, entry.token(t, func(t *invite.Token) { t.Consumer = "venice" }), reasons.InvitationInvalid, "for cluster venice", ""},
		"another cluster":      {naples, entry.url, entry.token(t, nil), reasons.InvitationRefused, `authentication service of cluster "milan"`, ""},
		"another pin":          {milan, entry.url, entry.token(t, func(t *invite.Token) { t.Pin = make([]byte, sha256.Size) }), reasons.InvitationRefused, "nothing was sent", ""},
		"nobody there":         {milan, nobody, entry.token(t, nil), reasons.ProviderUnreachable, strings.TrimPrefix(nobody, "https://"), ""},
		"a proxy that is none": {milan, entry.url, entry.token(t, nil), reasons.InvitationInvalid, "data.proxyURL", "10.71.0.9"},
	} {
		t.Run(name, func(t *testing.T) {
			identity := inviteCluster(t, rome, test.provider, test.url, test.token, test.proxy)
			eventually(t, rome, identity, test.reason, func(i *authv1beta1.Identity) bool {
				ready := meta.FindStatusCondition(i.Status.Conditions, kube.ConditionReady)
				return ready != nil && ready.Reason == test.reason && strings.Contains(ready.Message, test.within) && !strings.Contains(ready.Message, test.token)
			})
			rome.delete(t, identity)
			rome.removeInvitation(t, test.provider)
		})
	}
}
