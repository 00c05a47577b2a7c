package enrollment

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
)

// serviceOf returns the options of an authentication service of milan on an API server with these objects.
func serviceOf(functions interceptor.Funcs, objects ...client.Object) Options {
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objects...).WithInterceptorFuncs(functions).Build()
	return Options{
		ClusterID: "milan", Namespace: "liqo", Client: c, Reader: c, Log: logr.Discard(), Now: time.Now, Random: rand.Reader, Patience: 50 * time.Millisecond,
	}
}

// tenantNamespaceOf returns a namespace that the authentication service created for rome.
func tenantNamespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: "rome", peering.LabelEnrolled: api.True,
	}}}
}

// TestTokenIsIssuedDuringEnrollments: an enrollment may write the record of used tokens between the read and the write of Issue.
func TestTokenIsIssuedDuringEnrollments(t *testing.T) {
	var options Options
	other := invite.Token{ID: "0123456789ab", Expires: time.Now().Add(time.Hour)}
	conflicts := 2
	busy := func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
		if conflicts == 0 {
			return c.Patch(ctx, o, patch, opts...)
		}
		conflicts--
		secret, err := EnsureSecret(ctx, &options)
		if err != nil {
			return err
		}
		usedTokens, err := invite.Redeem(secret.Data[invite.UsedKey], other, "naples", time.Now())
		if err != nil {
			return err
		}
		if err := WriteUsedTokens(ctx, c, secret, usedTokens); err != nil {
			return err
		}
		return apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, o.GetName(), errors.New("the object has been modified"))
	}
	options = serviceOf(interceptor.Funcs{Patch: busy})
	token := invite.Token{Expires: time.Now().Add(time.Hour), Consumer: "rome"}
	text, err := Issue(t.Context(), &options, &token)
	if err != nil || conflicts != 0 {
		t.Fatalf("%v, with %d conflicts to come", err, conflicts)
	}
	secret, err := EnsureSecret(t.Context(), &options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := invite.CheckToken(secret.Data[invite.SecretKey], text, "rome", time.Now()); err != nil {
		t.Errorf("the token: %v", err)
	}
	for _, recorded := range []invite.Token{token, other} {
		if _, err := invite.Redeem(secret.Data[invite.UsedKey], recorded, "thief", time.Now()); !errors.Is(err, invite.ErrTokenTaken) {
			t.Errorf("the record of token %s: %v, want %v", recorded.ID, err, invite.ErrTokenTaken)
		}
	}
}

// TestTokensOfTheNextPeeringStayValid: deleting a Tenant invalidates the tokens of its cluster. Meanwhile no token is issued for the cluster or
// recorded as used by it, so the deletion invalidates no token of the next peering.
func TestTokensOfTheNextPeeringStayValid(t *testing.T) {
	began := metav1.NewTime(time.Now().Add(-time.Minute))
	tenant := &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", DeletionTimestamp: &began, Finalizers: []string{peering.FinalizerTenant}},
		Spec:       authv1beta1.TenantSpec{ClusterID: "rome"},
	}
	options := serviceOf(interceptor.Funcs{}, tenantNamespaceOf(tenant.Namespace), tenant)
	d := New(options)
	forRome, forAny := invite.Token{Expires: time.Now().Add(time.Hour), Consumer: "rome"}, invite.Token{Expires: time.Now().Add(time.Hour)}
	if _, err := Issue(t.Context(), &options, &forRome); err == nil || !strings.Contains(err.Error(), "Tenant liqo-tenant-rome/rome") {
		t.Errorf("a token for rome: %v, want an error that names the Tenant", err)
	}
	text, err := Issue(t.Context(), &options, &forAny)
	if err != nil {
		t.Fatal(err)
	}
	nonceRequest := &peering.NonceRequest{Cluster: "rome", Token: text}
	told := &refusal{}
	if err := d.admit(t.Context(), nonceRequest); !errors.As(err, &told) || told.status != http.StatusServiceUnavailable {
		t.Errorf("rome enrolls: %v, want that it tries again later", err)
	}
	if err := SpendTokens(t.Context(), &options, "rome", began.Time); err != nil {
		t.Fatal(err)
	}
	before := client.MergeFrom(tenant.DeepCopy())
	tenant.Finalizers = nil
	if err := options.Client.Patch(t.Context(), tenant, before); err != nil {
		t.Fatal(err)
	}
	if err := d.admit(t.Context(), nonceRequest); err != nil {
		t.Errorf("rome enrolls after the end: %v", err)
	}
	if _, err := Issue(t.Context(), &options, &forRome); err != nil {
		t.Errorf("a token for rome after the end: %v", err)
	}
}

// TestIssuerWithoutPermissionToListTenants: a user who may issue tokens but not list Tenants can issue tokens for any cluster. For a token of one
// cluster, the error names the missing permission and how to get it.
func TestIssuerWithoutPermissionToListTenants(t *testing.T) {
	options := serviceOf(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "authentication.liqo.io", Resource: "tenants"}, "", errors.New("cannot list resource"))
	}})
	if _, err := Issue(t.Context(), &options, &invite.Token{Expires: time.Now().Add(time.Hour)}); err != nil {
		t.Errorf("a token for any cluster: %v", err)
	}
	_, err := Issue(t.Context(), &options, &invite.Token{Expires: time.Now().Add(time.Hour), Consumer: "rome"})
	for _, want := range []string{"the permission to list Tenants in all namespaces", "kubectl create clusterrole", "cannot list resource"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a token for rome: %v, want %q", err, want)
		}
	}
}

// TestOldestTenantCounts: of several Tenants of a cluster the oldest counts, as for the controller of Tenants. Of several tenant namespaces the
// administrator chooses one, as with liqoctl.
func TestOldestTenantCounts(t *testing.T) {
	var objects []client.Object
	for i, name := range []string{"z-young", "m-oldest", "a-younger"} {
		objects = append(objects, &authv1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: name, CreationTimestamp: metav1.Unix([]int64{7, 1, 9}[i], 0)},
			Spec:       authv1beta1.TenantSpec{ClusterID: "rome"},
		})
	}
	d := New(serviceOf(interceptor.Funcs{}, append(objects, tenantNamespaceOf("one"), tenantNamespaceOf("two"))...))
	if tenant, err := d.tenantOf(t.Context(), "one", "rome"); err != nil || tenant == nil || tenant.Name != "m-oldest" {
		t.Errorf("Tenant %v, error %v, want m-oldest", tenant, err)
	}
	_, unknown := d.known(t.Context(), "rome")
	_, unplaced := d.namespace(t.Context(), "rome")
	for _, err := range []error{unknown, unplaced} {
		told := &refusal{}
		if !errors.As(err, &told) || told.status != http.StatusConflict || !strings.Contains(err.Error(), "namespaces one and two of cluster milan") {
			t.Errorf("error %v, want one that names both namespaces", err)
		}
	}
}
