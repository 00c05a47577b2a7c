package controllers

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/accounts"
	"liqo.io/liqo/test/apitest"
)

// refusedAs waits until the API server does not know the token of a client any more.
func refusedAs(t *testing.T, what string, c client.Client) {
	t.Helper()
	apitest.Eventually(t, within, what+" to be no token any more", func() error {
		if err := c.List(t.Context(), &corev1.PodList{}, client.InNamespace("shop-rome")); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("answered: %w", errors.Join(err, errors.New("want unauthorized")))
		}
		return nil
	})
}

// TestTokensEndWithKeyAndKindOnAPIServer: an attacker has copied the tokens of a consumer. They become invalid when the consumer peers again with a
// new key, and when the provider issues certificates instead. The consumer keeps the access that it needs to get the new credentials.
func TestTokensEndWithKeyAndKindOnAPIServer(t *testing.T) {
	var rome, milan *cluster
	apitest.Both(t, func() { rome = newCluster(t, "rome") }, func() { milan = newCluster(t, "milan") })
	milan.withTokens(t, time.Hour)
	rome.run(t)
	stop := milan.start(t)
	rome.create(t, rome.tenantNamespace(milan))
	milan.create(t, milan.tenantNamespace(rome))
	rome.create(t, sliceOf(rome, milan))
	rome.create(t, mapOf(rome, milan))
	peer(t, rome, milan)
	settled(t, rome, milan)
	thief := steal(t, rome, milan, "shop-rome")

	// A new key.
	private, public, _ := newKey(t)
	change(t, rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: authv1beta1.KeysSecret}}, func(s *corev1.Secret) {
		s.Data = map[string][]byte{authv1beta1.PrivateKeyKey: private, authv1beta1.PublicKeyKey: public}
	})
	nonce := &corev1.Secret{}
	if err := milan.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-rome", Name: authv1beta1.NonceSecret}, nonce); err != nil {
		t.Fatal(err)
	}
	signature, err := peering.Sign(rome.signer(t), nonce.Data[authv1beta1.NonceKey])
	if err != nil {
		t.Fatal(err)
	}
	again := tenantOf(t, rome, milan, signature)
	holder, err := peering.Holder(again.Spec.CSR)
	if err != nil {
		t.Fatal(err)
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)}
	change(t, milan, tenant, func(tn *authv1beta1.Tenant) { tn.Spec = again.Spec })
	refusedAs(t, "the token for the old key", thief.controlPlane)
	refusedAs(t, "the token of the virtual kubelet for the old key", thief.slice)
	eventually(t, milan, tenant, "with a token for the new key", func(tn *authv1beta1.Tenant) bool {
		return tn.Status.AuthParams != nil && tn.Status.AuthParams.Token != nil && tn.Status.AuthParams.Token.Holder == holder
	})
	change(t, rome, &authv1beta1.Identity{ObjectMeta: rome.meta(milan, "controlplane-milan")}, func(i *authv1beta1.Identity) { i.Spec.AuthParams = *tenant.Status.AuthParams })
	touch := func(o metav1.Object) { o.SetAnnotations(map[string]string{"touched": "true"}) }
	change(t, rome, &authv1beta1.ResourceSlice{ObjectMeta: rome.meta(milan, "milan")}, func(s *authv1beta1.ResourceSlice) { touch(s) })
	eventually(t, rome, &authv1beta1.Identity{ObjectMeta: rome.meta(milan, "resourceslice-milan")}, "with a token for the new key", func(i *authv1beta1.Identity) bool {
		return i.Spec.AuthParams.Token != nil && i.Spec.AuthParams.Token.Holder == holder
	})
	settled(t, rome, milan)
	thief = steal(t, rome, milan, "bank-rome")

	// Another kind.
	stop()
	milan.tokens = accounts.Tokens{}
	milan.run(t)
	eventually(t, rome, &authv1beta1.Identity{ObjectMeta: rome.meta(milan, "resourceslice-milan")}, "with a certificate", func(i *authv1beta1.Identity) bool {
		return len(i.Spec.AuthParams.SignedCRT) > 0 && i.Spec.AuthParams.Token == nil
	})
	slice := &corev1.ServiceAccount{ObjectMeta: milan.meta(rome, peering.SliceAccountName("milan"))}
	unused := func(a *corev1.ServiceAccount) bool { return a.Annotations[peering.AnnotationUnusedSince] != "" }
	eventually(t, milan, slice, "to be deleted later", unused)
	apitest.Known(t, milan.cached, slice) // without the time, they would record the one that the clock shows below
	milan.ahead.Store(int64(accounts.HandOverTime + time.Minute))
	change(t, milan, &authv1beta1.ResourceSlice{ObjectMeta: milan.meta(rome, "milan")}, func(s *authv1beta1.ResourceSlice) { touch(s) }) // the controllers set their alarms by the machine's clock: wake them
	milan.gone(t, slice)
	refusedAs(t, "the token of the virtual kubelet that has a certificate", thief.slice)
	account := &corev1.ServiceAccount{ObjectMeta: milan.meta(rome, peering.AccountName)}
	eventually(t, milan, account, "kept while the consumer needs it", func(*corev1.ServiceAccount) bool { return true })
	if err := thief.controlPlane.List(t.Context(), &authv1beta1.ResourceSliceList{}, client.InNamespace("liqo-tenant-rome")); err != nil {
		t.Errorf("the control plane could not fetch its certificate: %v", err)
	}
	rome.ahead.Store(int64(45 * time.Minute))
	milan.ahead.Store(int64(45 * time.Minute))
	change(t, milan, tenant, func(tn *authv1beta1.Tenant) { touch(tn) })
	change(t, rome, &authv1beta1.Identity{ObjectMeta: rome.meta(milan, "controlplane-milan")}, func(i *authv1beta1.Identity) { touch(i) })
	eventually(t, rome, &authv1beta1.Identity{ObjectMeta: rome.meta(milan, "controlplane-milan")}, "with a certificate", func(i *authv1beta1.Identity) bool {
		return len(i.Spec.AuthParams.SignedCRT) > 0 && i.Spec.AuthParams.Token == nil
	})
	eventually(t, milan, account, "to be deleted later", unused)
	apitest.Known(t, milan.cached, account)
	milan.ahead.Store(int64(45*time.Minute + accounts.HandOverTime + time.Minute))
	change(t, milan, tenant, func(tn *authv1beta1.Tenant) { tn.Annotations = map[string]string{"touched": "again"} })
	milan.gone(t, account)
	refusedAs(t, "the token of the control plane that has a certificate", thief.controlPlane)
	left := &rbacv1.ClusterRoleBindingList{}
	if err := milan.List(t.Context(), left, client.MatchingLabels{peering.LabelAccount: api.True}); err != nil || len(left.Items) > 0 {
		t.Errorf("the tokens left %d ClusterRoleBindings, %v", len(left.Items), err)
	}
	settled(t, rome, milan)
}

// TestAccountsEndWithTheTenant: the ServiceAccounts of a deleted Tenant are deleted without the garbage collector. A drained Tenant keeps them.
func TestAccountsEndWithTheTenant(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		var objects []client.Object
		for _, name := range []string{peering.AccountName, peering.SliceAccountName("milan")} {
			objects = append(objects, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: name, Labels: map[string]string{peering.LabelAccount: api.True}}})
		}
		own := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "default"}}
		tenant := &authv1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"},
			Spec:       authv1beta1.TenantSpec{ClusterID: "rome", TenantCondition: authv1beta1.TenantDrained},
		}
		if deleted {
			tenant.DeletionTimestamp, tenant.Finalizers = new(metav1.Now()), []string{peering.FinalizerTenant}
		}
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(append(objects, own, tenant)...).Build()
		r := &tenants{providerSide: providerSide{client: c, reader: c, own: "milan", accounts: &accounts.Issuer{Client: c, Reader: c}}}
		if err := r.suspend(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		for _, account := range append(objects, own) {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(account), account); apierrors.IsNotFound(err) != (deleted && account != own) {
				t.Errorf("the Tenant is deleted: %t; reading ServiceAccount %s ends with %v", deleted, account.GetName(), err)
			}
		}
	}
}
