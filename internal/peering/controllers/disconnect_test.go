package controllers

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering/accounts"
	"liqo.io/liqo/internal/peering/enrollment"
	"liqo.io/liqo/internal/peering/invite"
)

// TestRevokedConsumersAreDisconnected: when a Tenant is deleted, the network objects negotiated with its consumer are deleted, also those without an
// owner reference. Objects of an administrator stay, and so does the network that this cluster requested from that consumer.
func TestRevokedConsumersAreDisconnected(t *testing.T) {
	const namespace = "liqo-tenant-rome"
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rome", UID: "1"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
	meta := func(name string, labels map[string]string) metav1.ObjectMeta {
		labels[api.LabelRemoteClusterID] = "rome"
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	}
	negotiated := func() metav1.ObjectMeta {
		return meta("rome", map[string]string{networkingv1beta1.LabelNegotiated: api.True})
	}
	for name, test := range map[string]struct {
		asked bool
		stay  bool
	}{"the consumer asked": {false, false}, "this cluster asked, too": {true, true}} {
		t.Run(name, func(t *testing.T) {
			made := []client.Object{
				&networkingv1beta1.Configuration{ObjectMeta: negotiated()}, &networkingv1beta1.PublicKey{ObjectMeta: negotiated()},
				&networkingv1beta1.GatewayServer{ObjectMeta: negotiated()}, &networkingv1beta1.GatewayClient{ObjectMeta: negotiated()},
			}
			admins := &networkingv1beta1.Configuration{ObjectMeta: meta("admins", map[string]string{})}
			builder := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(tenant, admins).WithObjects(made...).
				WithObjects(&networkingv1beta1.NetworkRequest{ObjectMeta: meta("theirs", map[string]string{api.LabelReplicated: api.True, api.LabelReplication: api.False, api.LabelOriginID: "rome"})})
			if test.asked {
				builder = builder.WithObjects(&networkingv1beta1.NetworkRequest{ObjectMeta: meta("ours", map[string]string{api.LabelReplication: api.True, api.LabelRemoteID: "rome"})})
			}
			c := builder.Build()
			r := &tenants{providerSide: providerSide{client: c, reader: c, accounts: &accounts.Issuer{Client: c, Reader: c}}}
			if err := r.revoke(t.Context(), tenant); !kube.IsWait(err) {
				t.Fatalf("while copies are there: %v", err)
			}
			if err := r.revoke(t.Context(), tenant); err != nil {
				t.Fatal(err)
			}
			for _, o := range made {
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); apierrors.IsNotFound(err) == test.stay {
					t.Errorf("%T: %v, want it to stay %t", o, err, test.stay)
				}
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(admins), admins); err != nil {
				t.Errorf("what an administrator made: %v", err)
			}
		})
	}
}

// TestDeletingADuplicateTenantKeepsTheOlder: deleting a Tenant that was refused as a duplicate leaves the replicated objects, bindings and tokens of
// the older Tenant.
func TestDeletingADuplicateTenantKeepsTheOlder(t *testing.T) {
	const namespace = "liqo-tenant-rome"
	now := time.Unix(1_800_000_000, 0)
	tenant := func(name string, age time.Duration) *authv1beta1.Tenant {
		return &authv1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Spec:       authv1beta1.TenantSpec{ClusterID: "rome"},
		}
	}
	admitted, duplicate := tenant("rome", time.Hour), tenant("again", time.Minute)
	token := invite.Token{ID: "AAECAwQFBgcI", Expires: now.Add(time.Hour)}
	used, err := invite.Redeem(nil, token, "rome", now)
	if err != nil {
		t.Fatal(err)
	}
	local, wide := bindings(admitted)
	if err := controllerutil.SetControllerReference(admitted, local, kube.NewScheme()); err != nil {
		t.Fatal(err)
	}
	stay := []client.Object{local, wide, &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "theirs",
		Labels: map[string]string{api.LabelReplicated: api.True, api.LabelReplication: api.False, api.LabelOriginID: "rome"}}}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: invite.KeySecret}, Data: map[string][]byte{invite.UsedKey: used}}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(admitted, duplicate, secret).WithObjects(stay...).Build()
	r := &tenants{
		providerSide: providerSide{client: c, reader: c, accounts: &accounts.Issuer{Client: c, Reader: c}},
		enrollment:   enrollment.Options{Namespace: api.Namespace, Client: c, Reader: c, Now: func() time.Time { return now }},
	}
	if err := r.end(t.Context(), duplicate); err != nil {
		t.Fatal(err)
	}
	for _, o := range stay {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Errorf("after the deletion of a duplicate: %v", err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	if _, err := invite.Redeem(secret.Data[invite.UsedKey], token, "rome", now); err != nil {
		t.Errorf("the token of the admitted cluster: %v", err)
	}
}

// TestTokensEndWithTheTenant: deleting a Tenant invalidates the tokens that its cluster used before the Tenant disappears. A drain does not
// invalidate them.
func TestTokensEndWithTheTenant(t *testing.T) {
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", UID: "1"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
	now := time.Unix(1_800_000_000, 0)
	token := invite.Token{ID: "AAECAwQFBgcI", Expires: now.Add(time.Hour)}
	usedTokens, err := invite.Redeem(nil, token, "rome", now)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: invite.KeySecret}, Data: map[string][]byte{invite.UsedKey: usedTokens}}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(tenant, secret).Build()
	r := &tenants{
		providerSide: providerSide{client: c, reader: c, accounts: &accounts.Issuer{Client: c, Reader: c}},
		enrollment:   enrollment.Options{Namespace: api.Namespace, Client: c, Reader: c, Now: func() time.Time { return now }},
	}
	tenant.DeletionTimestamp = &metav1.Time{Time: now}
	for _, step := range []struct {
		what string
		do   func() error
		want error
	}{
		{"a drain", func() error { return r.suspend(t.Context(), tenant) }, nil},
		{"the end", func() error { return r.end(t.Context(), tenant) }, invite.ErrTokenSpent},
		{"the end, once more", func() error { return r.end(t.Context(), tenant) }, invite.ErrTokenSpent},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			t.Fatal(err)
		}
		if _, err := invite.Redeem(secret.Data[invite.UsedKey], token, "rome", now); !errors.Is(err, step.want) {
			t.Errorf("%s: the token that was used: %v, want %v", step.what, err, step.want)
		}
	}
}
