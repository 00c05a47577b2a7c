package accounts

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// newKey returns a new key pair in PEM, and its private key.
func newKey(t *testing.T) (private, public []byte, key crypto.Signer) {
	t.Helper()
	private, public, err := peering.NewKey(peering.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if key, err = peering.ParsePrivateKey(private); err != nil {
		t.Fatal(err)
	}
	return private, public, key
}

// requestOf returns a certificate request of rome's control plane, and the fingerprint of its key.
func requestOf(t *testing.T) (request []byte, holder string) {
	t.Helper()
	_, _, key := newKey(t)
	request, err := peering.NewRequest(rand.Reader, key, peering.ControlPlaneSubject("rome"))
	if err != nil {
		t.Fatal(err)
	}
	if holder, err = peering.Holder(request); err != nil {
		t.Fatal(err)
	}
	return request, holder
}

// TestAccountsOfPresentKeysStay: neither a ResourceSlice, whose controller may have read a former Tenant, nor a ResourceSlice with a key of its own,
// where these are tolerated, ends the ServiceAccount of a present key.
func TestAccountsOfPresentKeysStay(t *testing.T) {
	request, _ := requestOf(t)
	account := func(name string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Namespace: "liqo-tenant-rome", Name: name, Labels: map[string]string{peering.LabelAccount: api.True}, Annotations: map[string]string{peering.AnnotationHolder: "of another key"},
		}}
	}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan"}}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome", CSR: request}}
	tolerant := tenant.DeepCopy()
	tolerant.Spec.AuthzPolicy = authv1beta1.TolerateNoHandshake
	for what, row := range map[string]struct {
		name string
		end  func(*Issuer) error
		ends bool
	}{
		"the control plane's, by a slice": {peering.AccountName, func(a *Issuer) error { return a.RetireOf(t.Context(), tenant, slice) }, false},
		"a slice's, by itself":            {peering.SliceAccountName("milan"), func(a *Issuer) error { return a.RetireOf(t.Context(), tenant, slice) }, false},
		"a slice's, tolerated":            {peering.SliceAccountName("milan"), func(a *Issuer) error { return a.Retire(t.Context(), tolerant) }, false},
		"the control plane's, tolerated":  {peering.AccountName, func(a *Issuer) error { return a.Retire(t.Context(), tolerant) }, true},
		"a slice's, of another key":       {peering.SliceAccountName("milan"), func(a *Issuer) error { return a.Retire(t.Context(), tenant) }, true},
	} {
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(account(row.name), slice.DeepCopy()).Build()
		a := &Issuer{Client: c, Reader: c, Now: time.Now, Tokens: Tokens{Enabled: true}}
		if err := row.end(a); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(account(row.name)), &corev1.ServiceAccount{}); apierrors.IsNotFound(err) != row.ends {
			t.Errorf("%s: reading the ServiceAccount ends with %v, want that it is deleted: %t", what, err, row.ends)
		}
	}
}

// renewBy returns a copy of a Renew of rome's control plane in milan, with a certificate request.
func renewBy(request []byte) *authv1beta1.Renew {
	return &authv1beta1.Renew{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "controlplane-milan", Labels: map[string]string{api.LabelReplicated: api.True, api.LabelOriginID: "rome"}},
		Spec:       authv1beta1.RenewSpec{ConsumerClusterID: "rome", IdentityType: authv1beta1.IdentityControlPlane, CSR: request},
	}
}

// TestAccountsOutliveTheHandOver: the provider issues certificates again. The ServiceAccounts stay until the consumer has had time to read its
// certificates, even if its control plane is down, or if a user deletes the Renew with the certificate. They do not stay longer. A Renew that the
// provider would not answer does not keep them, and after an hour no Renew does, because a thief of the token could copy one. A wrong clock does not
// change that. While the provider issues tokens, the ServiceAccounts stay.
func TestAccountsOutliveTheHandOver(t *testing.T) {
	_, public, key := newKey(t)
	request, err := peering.NewRequest(rand.Reader, key, peering.ControlPlaneSubject("rome"))
	if err != nil {
		t.Fatal(err)
	}
	holder, err := peering.Holder(request)
	if err != nil {
		t.Fatal(err)
	}
	certified := &authv1beta1.AuthParams{SignedCRT: []byte("a certificate")}
	tenant := &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome", CSR: request, PublicKey: public},
	}
	tenant.Status.AuthParams = certified
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan"}}
	slice.Status.AuthParams = certified
	another, _ := requestOf(t)
	own, foreign, leaving := renewBy(request), renewBy(another), renewBy(request)
	leaving.Finalizers = []string{"somebody.example/holds-it"}
	ofSlice := renewBy(request)
	ofSlice.Spec.IdentityType, ofSlice.Spec.ResourceSliceRef = authv1beta1.IdentityResourceSlice, &corev1.LocalObjectReference{Name: "milan"}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type step struct {
		at    time.Duration
		renew *authv1beta1.Renew // the Renew that there is
		gone  bool               // whether the ServiceAccount is gone afterwards
	}
	now := start.Format(time.RFC3339)
	for what, row := range map[string]struct {
		account, offered string // the ServiceAccount, and when its certificate was offered
		tokens           bool   // whether the provider issues tokens
		steps            []step
	}{
		"a virtual kubelet": {peering.SliceAccountName("milan"), "", false, []step{{0, nil, false}, {HandOverTime - time.Second, nil, false}, {HandOverTime, nil, true}}},
		"a control plane": {peering.AccountName, now, false, []step{
			{0, own, false}, {30 * time.Minute, own, false}, {40 * time.Minute, nil, false}, {40*time.Minute + HandOverTime, nil, true},
		}},
		"a control plane whose certificate was not asked for": {peering.AccountName, "", false, []step{{0, nil, false}, {1000 * time.Hour, nil, false}}},
		"a control plane whose Renew somebody deletes": {peering.AccountName, now, false, []step{
			{0, own, false}, {20 * time.Minute, nil, false}, {20*time.Minute + HandOverTime, own, false}, {40 * time.Minute, own, false}, {45 * time.Minute, nil, false},
			{45*time.Minute + HandOverTime, nil, true},
		}},
		"a thief who keeps a copy of the Renew": {peering.AccountName, now, false, []step{{0, own, false}, {RevokeTime - time.Second, own, false}, {RevokeTime, own, true}}},
		"a thief who creates it again and again": {peering.AccountName, now, false, []step{
			{0, nil, false}, {9 * time.Minute, own, false}, {50 * time.Minute, own, false}, {55 * time.Minute, nil, false}, {RevokeTime, nil, true},
		}},
		"a thief who keeps a Renew with another key":   {peering.AccountName, now, false, []step{{0, foreign, false}, {HandOverTime, foreign, true}}},
		"a thief who keeps a Renew of a ResourceSlice": {peering.AccountName, now, false, []step{{0, ofSlice, false}, {HandOverTime, ofSlice, true}}},
		"a Renew that is being deleted":                {peering.AccountName, now, false, []step{{0, leaving, false}, {HandOverTime, leaving, true}}},
		"offered by an earlier release":                {peering.AccountName, api.True, false, []step{{0, own, false}, {RevokeTime - time.Second, own, false}, {RevokeTime, own, true}}},
		"a clock that was wrong":                       {peering.AccountName, "2036-01-01T00:00:00Z", false, []step{{0, own, false}, {RevokeTime, own, true}}},
		"a clock that was slow for a while":            {peering.AccountName, now, false, []step{{-10 * time.Hour, own, false}, {0, own, true}}},
		"a provider that issues tokens again":          {peering.AccountName, now, true, []step{{0, nil, false}, {HandOverTime, nil, false}, {1000 * time.Hour, own, false}}},
	} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Namespace: "liqo-tenant-rome", Name: row.account, Labels: map[string]string{peering.LabelAccount: api.True}, Annotations: map[string]string{peering.AnnotationHolder: holder},
		}}
		if row.offered != "" {
			account.Annotations[peering.AnnotationReplaced] = row.offered
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "acts-as-its-user", Labels: map[string]string{api.LabelRemoteClusterID: "rome", peering.LabelAccount: api.True}},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
		}
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(account, binding, slice.DeepCopy()).Build()
		now := start
		a := &Issuer{Client: c, Reader: c, Now: func() time.Time { return now }, Tokens: Tokens{Enabled: row.tokens}}
		nothing := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
		var before *authv1beta1.Renew
		for _, step := range row.steps {
			now = start.Add(step.at)
			var err error
			if before != step.renew {
				if before != nil {
					err = c.Delete(t.Context(), before.DeepCopy())
				}
				if step.renew != nil {
					err = errors.Join(err, c.Create(t.Context(), step.renew.DeepCopy()))
				}
				if step.renew == leaving {
					err = errors.Join(err, c.Delete(t.Context(), step.renew.DeepCopy()))
				}
			}
			before = step.renew
			if err := errors.Join(err, a.RetireOf(t.Context(), tenant, slice), a.Retire(t.Context(), tenant)); err != nil {
				t.Fatalf("%s, after %s: %v", what, step.at, err)
			}
			for _, obj := range []client.Object{account.DeepCopy(), binding.DeepCopy()} {
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); apierrors.IsNotFound(err) != step.gone {
					t.Errorf("%s, after %s: reading the %T ends with %v, want that it is deleted: %t", what, step.at, obj, err, step.gone)
				}
			}
			left := &corev1.ServiceAccount{}
			ends := c.Get(t.Context(), client.ObjectKeyFromObject(account), left) == nil && left.Annotations[peering.AnnotationUnusedSince]+left.Annotations[peering.AnnotationReplaced] != ""
			result, err := a.Retiring(nothing).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(tenant)})
			if err != nil || ends != (result.RequeueAfter > 0) || result.RequeueAfter > RevokeTime || left.Annotations[peering.AnnotationUnusedSince] != "" && result.RequeueAfter > HandOverTime {
				t.Errorf("%s, after %s: again after %s, %v, though it ends: %t", what, step.at, result.RequeueAfter, err, ends)
			}
		}
	}
}

// TestAccountsOfVouchedTenantsEnd: a Tenant without a certificate request gets its certificates by Renews alone. Its token ends an hour after the
// first one.
func TestAccountsOfVouchedTenantsEnd(t *testing.T) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: peering.AccountName, Labels: map[string]string{peering.LabelAccount: api.True}}}
	tenant := &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome", AuthzPolicy: authv1beta1.TolerateNoHandshake},
	}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(account).Build()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := &Issuer{Client: c, Reader: c, Now: func() time.Time { return now }}
	for _, step := range []struct {
		after time.Duration
		offer bool
		gone  bool
	}{{0, false, false}, {1000 * time.Hour, true, false}, {RevokeTime - time.Second, true, false}, {time.Second, false, true}} {
		now = now.Add(step.after)
		err := a.Retire(t.Context(), tenant)
		if step.offer {
			err = errors.Join(err, a.Supersede(t.Context(), tenant.Namespace))
		}
		if reading := c.Get(t.Context(), client.ObjectKeyFromObject(account), &corev1.ServiceAccount{}); err != nil || apierrors.IsNotFound(reading) != step.gone {
			t.Errorf("at %s: %v, reading the ServiceAccount ends with %v, want that it is deleted: %t", now, err, reading, step.gone)
		}
	}
}

// TestFirstOfferCounts: the time of the first offer of a certificate is never replaced by a later one, also if the cache does not have it yet. A time
// that is yet to come is.
func TestFirstOfferCounts(t *testing.T) {
	account := func(offered string) *corev1.ServiceAccount {
		a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: peering.AccountName, Annotations: map[string]string{}}}
		if offered != "" {
			a.Annotations[peering.AnnotationReplaced] = offered
		}
		return a
	}
	build := func(a *corev1.ServiceAccount) client.Client {
		return fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(a).Build()
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const first, present, later = "2025-12-31T23:30:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:30:00Z"
	for what, row := range map[string]struct{ cached, live, want string }{
		"none yet":               {"", "", present},
		"one before":             {first, first, first},
		"one before, not cached": {"", first, ""}, // nothing was written
		"one to come":            {later, later, present},
		"of an earlier release":  {api.True, api.True, present},
	} {
		c, live := build(account(row.cached)), build(account(row.live))
		a := &Issuer{Client: c, Reader: live, Now: func() time.Time { return now }}
		got := account("")
		if err := errors.Join(a.Supersede(t.Context(), got.Namespace), c.Get(t.Context(), client.ObjectKeyFromObject(got), got)); err != nil || got.Annotations[peering.AnnotationReplaced] != row.want {
			t.Errorf("%s: %v, %q, want %q", what, err, got.Annotations[peering.AnnotationReplaced], row.want)
		}
	}
}

// TestAccountsForUnknownKeysAreReplaced: a ServiceAccount of an earlier release that nothing ties to the present key is recreated, so that the tokens
// it had end. One that is being deleted is left alone: a token of it would end with it.
func TestAccountsForUnknownKeysAreReplaced(t *testing.T) {
	request, holder := requestOf(t)
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", UID: "tenant"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome", CSR: request}}
	token := func(uid types.UID, holder string) *authv1beta1.AuthParams {
		return &authv1beta1.AuthParams{Token: &authv1beta1.SealedToken{ServiceAccountUID: uid, Holder: holder}}
	}
	for what, row := range map[string]struct {
		holder   string
		present  *authv1beta1.AuthParams
		deleting bool
		retired  bool
	}{
		"the present key":                     {holder, nil, false, false},
		"the present key, by the token":       {"", token("old", holder), false, false},
		"another key, by the token":           {"", token("old", "of another key"), false, true},
		"another key":                         {"of another key", token("old", holder), false, true},
		"no token":                            {"", nil, false, true},
		"a token of another one":              {"", token("before", holder), false, true},
		"the present key, being deleted":      {holder, nil, true, false},
		"of another key, being deleted still": {"of another key", nil, true, false},
	} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Namespace: "liqo-tenant-rome", Name: peering.AccountName, UID: "old", Labels: map[string]string{peering.LabelAccount: api.True}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(tenant, authv1beta1.GroupVersion.WithKind("Tenant"))},
		}}
		if row.holder != "" {
			account.Annotations[peering.AnnotationHolder] = row.holder
		}
		if row.deleting {
			account.Finalizers = []string{"somebody.example/holds-it"}
		}
		build := func() (client.Client, *Issuer) {
			c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(account.DeepCopy()).Build()
			if row.deleting {
				if err := c.Delete(t.Context(), account.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			return c, &Issuer{Client: c, Reader: c, Now: time.Now, Tokens: Tokens{Enabled: true}}
		}
		c, a := build()
		before := &corev1.ServiceAccount{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(account), before); err != nil {
			t.Fatal(err)
		}
		got, err := a.account(t.Context(), Request{Account: tenant, Consumer: "rome", Request: request, Subject: peering.ControlPlaneSubject("rome"), Present: row.present})
		if row.deleting {
			after := &corev1.ServiceAccount{}
			if reading := c.Get(t.Context(), client.ObjectKeyFromObject(account), after); !kube.IsWait(err) || reading != nil || after.ResourceVersion != before.ResourceVersion {
				t.Errorf("%s: %v, %v, and it was changed: %t", what, err, reading, after.ResourceVersion != before.ResourceVersion)
			}
			if err := a.Supersede(t.Context(), account.Namespace); err != nil || c.Get(t.Context(), client.ObjectKeyFromObject(account), after) != nil || after.ResourceVersion != before.ResourceVersion {
				t.Errorf("%s: a Renew changed it, %v", what, err)
			}
			continue
		}
		if err != nil || (got.UID != "old") != row.retired || got.Annotations[peering.AnnotationHolder] != holder {
			t.Errorf("%s: %v, UID %q, holder %q; want that it is recreated: %t", what, err, got.UID, got.Annotations[peering.AnnotationHolder], row.retired)
		}
		_, a = build()
		tenant := tenant.DeepCopy()
		tenant.Status.AuthParams = row.present
		err = a.Retire(t.Context(), tenant)
		if reading := a.Client.Get(t.Context(), client.ObjectKeyFromObject(account), &corev1.ServiceAccount{}); err != nil || apierrors.IsNotFound(reading) != row.retired {
			t.Errorf("%s: retire ends with %v, reading the ServiceAccount with %v, want that it is deleted: %t", what, err, reading, row.retired)
		}
	}
}

// TestAccountsOfFormerOwnersAreReplaced: a ServiceAccount that outlived its Tenant or ResourceSlice is recreated for a later one of the same name and
// key, so that its tokens end.
func TestAccountsOfFormerOwnersAreReplaced(t *testing.T) {
	request, holder := requestOf(t)
	meta := metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", UID: "present"}
	tenant, slice := &authv1beta1.Tenant{ObjectMeta: meta}, &authv1beta1.ResourceSlice{ObjectMeta: meta}
	for owner, name := range map[client.Object]string{tenant: peering.AccountName, slice: peering.SliceAccountName("rome")} {
		gvk, err := apiutil.GVKForObject(owner, kube.NewScheme())
		if err != nil {
			t.Fatal(err)
		}
		former := owner.DeepCopyObject().(client.Object)
		former.SetUID("former")
		for what, row := range map[string]struct {
			owners []metav1.OwnerReference
			stays  bool
		}{
			"its own":              {[]metav1.OwnerReference{*metav1.NewControllerRef(owner, gvk)}, true},
			"that of a former one": {[]metav1.OwnerReference{*metav1.NewControllerRef(former, gvk)}, false},
			"an orphan":            {nil, false},
		} {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
				Namespace: meta.Namespace, Name: name, UID: "old", Labels: map[string]string{peering.LabelAccount: api.True},
				Annotations: map[string]string{peering.AnnotationHolder: holder}, OwnerReferences: row.owners,
			}}
			c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(account).Build()
			a := &Issuer{Client: c, Reader: c, Now: time.Now, Tokens: Tokens{Enabled: true}}
			got, err := a.account(t.Context(), Request{Account: owner, Consumer: "rome", Request: request, Subject: peering.ControlPlaneSubject("rome")})
			if err != nil || (got.UID == "old") != row.stays || !metav1.IsControlledBy(got, owner) {
				t.Errorf("%T, %s: %v, UID %q, owners %v; want that it stays: %t", owner, what, err, got.UID, got.OwnerReferences, row.stays)
			}
		}
	}
}

// TestOneTokenDespiteAnOldCache: a reconciliation that runs before the cache has the token of the previous one issues no second token.
func TestOneTokenDespiteAnOldCache(t *testing.T) {
	request, _ := requestOf(t)
	meta := metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", UID: "owner"}
	tenant := &authv1beta1.Tenant{ObjectMeta: meta, Spec: authv1beta1.TenantSpec{ClusterID: "rome", CSR: request}}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: meta}
	renew := &authv1beta1.Renew{ObjectMeta: meta}
	present := map[client.Object]**authv1beta1.AuthParams{tenant: &tenant.Status.AuthParams, slice: &slice.Status.AuthParams, renew: &renew.Status.AuthParams}
	for owner, status := range present {
		account := client.Object(tenant)
		if owner == slice {
			account = slice
		}
		issued := 0
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
			SubResourceCreate: func(_ context.Context, _ client.Client, _ string, _ client.Object, sub client.Object, _ ...client.SubResourceCreateOption) error {
				issued++
				sub.(*authenticationv1.TokenRequest).Status = authenticationv1.TokenRequestStatus{Token: fmt.Sprint("token ", issued), ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Hour))}
				return nil
			},
		}).WithObjects(owner).WithStatusSubresource(owner).Build()
		a := &Issuer{Client: c, Reader: c, Now: time.Now, Tokens: Tokens{Enabled: true, Life: time.Hour}}
		cached := Request{Owner: owner.DeepCopyObject().(client.Object), Account: account, Consumer: "rome", Request: request, Subject: peering.ControlPlaneSubject("rome")}
		first, err := a.Token(t.Context(), cached)
		if err != nil {
			t.Fatalf("%T: %v", owner, err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(owner), owner); err != nil {
			t.Fatal(err)
		}
		*status = &authv1beta1.AuthParams{Token: first}
		if err := c.Status().Update(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
		second, err := a.Token(t.Context(), cached)
		if err != nil || issued != 1 || !bytes.Equal(second.Sealed, first.Sealed) {
			t.Errorf("%T: %v, %d tokens were issued, want the first one again", owner, err, issued)
		}
	}
}
