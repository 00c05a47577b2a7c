package enrollment

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
)

// TestForgedTokensDoNotExhaustTheLimit: only requests with a token that this cluster issued count for the limit of all sources, so that clients
// without a token cannot shut out a client that has one.
func TestForgedTokensDoNotExhaustTheLimit(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: invite.KeySecret}, Data: map[string][]byte{invite.SecretKey: key}}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(secret).Build()
	d := New(Options{ClusterID: "milan", Namespace: "liqo", Client: c, Reader: c, Log: logr.Discard(), Patience: 50 * time.Millisecond})
	handler := d.Handler()
	ask := func(source int, token string) int {
		body, err := json.Marshal(&peering.NonceRequest{Cluster: "rome", Token: token})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, peering.EnrollmentNoncePath, bytes.NewReader(body))
		r.RemoteAddr = fmt.Sprintf("198.51.%d.%d:1", 100+source/250, source%250)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	token := invite.Token{ID: "0123456789ab", Expires: time.Now().Add(time.Hour)}
	forged, good := token.Text([]byte("another key")), token.Text(key)
	for source := range 400 {
		if status := ask(source, forged); status != http.StatusUnauthorized {
			t.Fatalf("forged token of source %d: status %d, want %d", source, status, http.StatusUnauthorized)
		}
	}
	// Nothing here makes a nonce, so the answer is that it was waited for.
	if status := ask(500, good); status == http.StatusTooManyRequests || status == http.StatusUnauthorized {
		t.Errorf("a good token after 400 forged ones: status %d", status)
	}
	refused := 0
	for range 25 {
		if ask(501, forged) == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 {
		t.Error("one source may ask as often as it likes")
	}
	d.Plain = true // behind a proxy, all have the same source
	for range 100 {
		if status := ask(501, forged); status != http.StatusUnauthorized {
			t.Fatalf("a forged token through a proxy: status %d, want %d", status, http.StatusUnauthorized)
		}
	}
	if status := ask(501, good); status == http.StatusTooManyRequests {
		t.Error("forged tokens exhaust the limit of a proxy")
	}
}

// TestForgedTokensCauseNoRequests: clients without a token cause at most one request for the key in each second. A token of a new key is accepted a second later.
func TestForgedTokensCauseNoRequests(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: invite.KeySecret}, Data: map[string][]byte{invite.SecretKey: key}}
	requests := 0
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(secret).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			requests++
			return c.Get(ctx, key, object, opts...)
		},
	}).Build()
	now := time.Now()
	d := New(Options{ClusterID: "milan", Namespace: "liqo", Client: c, Reader: c, Log: logr.Discard(), Now: func() time.Time { return now }})
	check := func(key string) error {
		token := invite.Token{ID: "0123456789ab", Expires: now.Add(time.Hour)}
		_, _, err := d.token(t.Context(), &peering.NonceRequest{Cluster: "rome", Token: token.Text([]byte(key))})
		return err
	}
	for range 100 {
		if check("another key") == nil {
			t.Fatal("a forged token is accepted")
		}
	}
	if requests != 1 {
		t.Errorf("100 forged tokens caused %d requests", requests)
	}
	if err := check(string(key)); err != nil {
		t.Errorf("a good token after forged ones: %v", err)
	}
	secret.Data[invite.SecretKey] = []byte("another key")
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	now = now.Add(keyAge)
	if err := check("another key"); err != nil {
		t.Errorf("a token of the new key: %v", err)
	}
	if err := check(string(key)); err == nil {
		t.Error("a token of the former key is accepted")
	}
}

// TestSpentTokens: a token of an ended peering is refused, even if the Tenant is deleted between the check of the token and the list of Tenants.
func TestSpentTokens(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
	token := invite.Token{ID: "0123456789ab", Expires: time.Now().Add(time.Hour)}
	usedTokens, err := invite.Redeem(nil, token, "rome", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: invite.KeySecret},
		Data:       map[string][]byte{invite.SecretKey: key, invite.UsedKey: usedTokens},
	}
	var options Options
	ends := func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, ok := list.(*authv1beta1.TenantList); ok {
			if err := SpendTokens(ctx, &options, "rome", time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		return c.List(ctx, list, opts...)
	}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(secret).WithInterceptorFuncs(interceptor.Funcs{List: ends}).Build()
	options = Options{
		ClusterID: "milan", Namespace: "liqo", Client: c, Reader: c, Log: logr.Discard(), Now: time.Now, Random: rand.Reader, Patience: 50 * time.Millisecond,
	}
	d := New(options)
	// The consumer holds two more commands, made before the end, that it never used: one for itself, one for any cluster.
	second, open := invite.Token{Expires: time.Now().Add(time.Hour), Consumer: "rome"}, invite.Token{Expires: time.Now().Add(time.Hour)}
	unused, err := Issue(t.Context(), &options, &second)
	if err != nil {
		t.Fatal(err)
	}
	forAny, err := Issue(t.Context(), &options, &open)
	if err != nil {
		t.Fatal(err)
	}
	enrollRequest := &peering.EnrollRequest{NonceRequest: peering.NonceRequest{Cluster: "rome", Token: token.Text(key)}}
	if _, err := d.apply(t.Context(), "liqo-tenant-rome", enrollRequest, &corev1.Secret{}); !errors.Is(err, invite.ErrTokenSpent) {
		t.Errorf("the Tenant ended while the request was served: error %v, want %v", err, invite.ErrTokenSpent)
	}
	if err := d.admit(t.Context(), &enrollRequest.NonceRequest); !errors.Is(err, invite.ErrTokenSpent) {
		t.Errorf("the Tenant ended before: error %v, want %v", err, invite.ErrTokenSpent)
	}
	for _, another := range []string{unused, forAny} {
		if err := d.admit(t.Context(), &peering.NonceRequest{Cluster: "rome", Token: another}); !errors.Is(err, invite.ErrTokenSpent) {
			t.Errorf("another token, made before the end: error %v, want %v", err, invite.ErrTokenSpent)
		}
	}
	if err := d.admit(t.Context(), &peering.NonceRequest{Cluster: "turin", Token: forAny}); err != nil {
		t.Errorf("a cluster that never had a peering, with the token for any cluster: %v", err)
	}
	third := invite.Token{Expires: time.Now().Add(time.Hour), Consumer: "rome"}
	anew, err := Issue(t.Context(), &options, &third)
	if err != nil {
		t.Fatal(err)
	}
	// Another Tenant ends: no business of this one.
	if err := SpendTokens(t.Context(), &options, "naples", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := d.stillGood(t.Context(), &peering.NonceRequest{Cluster: "rome", Token: anew}); err != nil {
		t.Errorf("a token made after the end: %v", err)
	}
	if err := c.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if err := SpendTokens(t.Context(), &options, "rome", time.Now()); err != nil {
		t.Errorf("without a Secret: %v", err)
	}
}

// TestClaimedIDsAreMarked: the Tenant of a cluster that enrolls with a token for any cluster is marked, because nothing proves the ID. A token for that cluster
// removes the mark.
func TestClaimedIDsAreMarked(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
	options := Options{ClusterID: "rome", Namespace: "liqo", Client: c, Reader: c, Now: time.Now, Random: rand.Reader, Log: logr.Discard()}
	d := New(options)
	private, public, err := peering.NewKey(peering.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := peering.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	enroll := func(cluster, consumer string) *authv1beta1.Tenant {
		t.Helper()
		text, err := Issue(t.Context(), &options, &invite.Token{Expires: time.Now().Add(time.Hour), Consumer: consumer})
		if err != nil {
			t.Fatal(err)
		}
		nonce, err := peering.NewNonce(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := peering.Sign(key, nonce)
		if err != nil {
			t.Fatal(err)
		}
		request, err := peering.NewRequest(rand.Reader, key, peering.ControlPlaneSubject(cluster))
		if err != nil {
			t.Fatal(err)
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-" + cluster, Name: "nonce"}, Data: map[string][]byte{authv1beta1.NonceKey: nonce}}
		tenant, err := d.apply(t.Context(), secret.Namespace, &peering.EnrollRequest{
			NonceRequest: peering.NonceRequest{Cluster: cluster, Token: text}, PublicKey: public, CSR: request, Signature: signature,
		}, secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(tenant), tenant); err != nil {
			t.Fatal(err)
		}
		return tenant
	}
	for _, row := range []struct {
		cluster, consumer string
		marked            bool
	}{{"milan", "", true}, {"milan", "", true}, {"milan", "milan", false}, {"milan", "", false}, {"turin", "turin", false}} {
		if got := enroll(row.cluster, row.consumer).Annotations[peering.AnnotationClaimedID] == "true"; got != row.marked {
			t.Errorf("after cluster %s enrolled with a token for %q, its Tenant is marked: %t, want %t", row.cluster, row.consumer, got, row.marked)
		}
	}
}

// TestInvitationsOfConsumersAreKept: an invitation is the Tenant's, and replaces only what was a Tenant's.
func TestInvitationsOfConsumersAreKept(t *testing.T) {
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-rome", Name: "rome", UID: "u-1"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
	back := &invite.Invitation{URL: "https://rome.example.org", Token: "the token"}
	present := func(owners ...metav1.OwnerReference) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: invite.Secret, OwnerReferences: owners},
			Data:       map[string][]byte{invite.URLKey: []byte("https://before")},
		}
	}
	for name, test := range map[string]struct {
		present *corev1.Secret
		back    *invite.Invitation
		want    string
		owned   bool
	}{
		"none":                      {},
		"the first":                 {back: back, want: back.URL, owned: true},
		"another one of the Tenant": {present: present(metav1.OwnerReference{APIVersion: "authentication.liqo.io/v1beta1", Kind: "Tenant", Name: "rome", UID: "u-1"}), back: back, want: back.URL, owned: true},
		"the administrator's":       {present: present(), back: back, want: "https://before"},
		"that of a wish":            {present: present(metav1.OwnerReference{APIVersion: "authentication.liqo.io/v1beta1", Kind: "Identity", Name: "controlplane-rome", UID: "u-2"}), back: back, want: "https://before"},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(kube.NewScheme())
			if test.present != nil {
				builder = builder.WithObjects(test.present)
			}
			c := builder.Build()
			d := New(Options{ClusterID: "milan", Namespace: "liqo", Client: c, Reader: c, Log: logr.Discard()})
			if err := d.keep(t.Context(), tenant, test.back); err != nil {
				t.Fatal(err)
			}
			secret := &corev1.Secret{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: tenant.Namespace, Name: invite.Secret}, secret); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if got := string(secret.Data[invite.URLKey]); got != test.want || (len(secret.OwnerReferences) == 1 && secret.OwnerReferences[0].UID == "u-1") != test.owned {
				t.Errorf("%q, owned by %v, want %q", got, secret.OwnerReferences, test.want)
			}
		})
	}
}

// TestInvitationTakenOverMeanwhile: the administrator takes over the Secret of an invitation, or creates it, after the service has read it. The
// administrator's address and token stay, and the consumer gets an error that asks it to retry.
func TestInvitationTakenOverMeanwhile(t *testing.T) {
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-rome", Name: "rome", UID: "u-1"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
	key := client.ObjectKey{Namespace: tenant.Namespace, Name: invite.Secret}
	administrators := map[string][]byte{invite.URLKey: []byte("https://chosen"), invite.TokenKey: []byte("chosen")}
	for name, present := range map[string][]client.Object{
		"created meanwhile": nil,
		"taken over meanwhile": {&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "authentication.liqo.io/v1beta1", Kind: "Tenant", Name: "rome", UID: "u-1"},
			}},
			Data: map[string][]byte{invite.URLKey: []byte("https://before")},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			takeOver := func(ctx context.Context, c client.WithWatch) error {
				if len(present) == 0 {
					return c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: administrators})
				}
				secret := &corev1.Secret{}
				if err := c.Get(ctx, key, secret); err != nil {
					return err
				}
				secret.OwnerReferences, secret.Data = nil, administrators
				return c.Update(ctx, secret)
			}
			c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(present...).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if err := takeOver(ctx, c); err != nil {
						return err
					}
					return c.Create(ctx, o, opts...)
				},
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
					if err := takeOver(ctx, c); err != nil {
						return err
					}
					return c.Patch(ctx, o, patch, opts...)
				},
			}).Build()
			d := New(Options{ClusterID: "milan", Namespace: "liqo", Client: c, Reader: c, Log: logr.Discard()})
			err := d.keep(t.Context(), tenant, &invite.Invitation{URL: "https://rome.example.org", Token: "the token"})
			if told := (*refusal)(nil); !errors.As(err, &told) || told.status != http.StatusServiceUnavailable {
				t.Errorf("the service answers %v, want status 503", err)
			}
			secret := &corev1.Secret{}
			if err := c.Get(t.Context(), key, secret); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(administrators, secret.Data); diff != "" || len(secret.OwnerReferences) != 0 {
				t.Errorf("owners %v, data (-want +got):\n%s", secret.OwnerReferences, diff)
			}
			// The repeated request leaves the administrator's invitation.
			if err := d.keep(t.Context(), tenant, &invite.Invitation{URL: "https://rome.example.org", Token: "the token"}); err != nil {
				t.Errorf("the repeated request: %v", err)
			}
		})
	}
}
