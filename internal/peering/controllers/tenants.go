package controllers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/accounts"
	"liqo.io/liqo/internal/peering/enrollment"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=authentication.liqo.io,resources=tenants,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=tenants/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=tenants/finalizers;renews/finalizers,verbs=update

// providerSide holds the dependencies that the controllers of a provider share.
type providerSide struct {
	client client.Client
	// reader reads from the API server directly, without a cache.
	reader  client.Reader
	events  events.EventRecorder
	own     string
	signing *signing
	// accounts are the ServiceAccounts of consumers that authenticate with tokens.
	accounts *accounts.Issuer
	address  *address
	now      func() time.Time
}

// tenantOf returns the oldest Tenant of a namespace that is not being deleted; nil when there is none.
func (p *providerSide) tenantOf(ctx context.Context, namespace string) (*authv1beta1.Tenant, error) {
	list := &authv1beta1.TenantList{}
	if err := p.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Tenants in namespace %s: %w", namespace, err)
	}
	var first *authv1beta1.Tenant
	for i := range list.Items {
		if tenant := &list.Items[i]; tenant.DeletionTimestamp.IsZero() && (first == nil || older(tenant, first)) {
			first = tenant
		}
	}
	return first, nil
}

// older reports whether a is older than b; if both have the same age, the name decides.
func older(a, b client.Object) bool { return api.CompareAge(a, b) < 0 }

// tenants admits consumers: it verifies their proof of identity, has their certificate signed and creates their role bindings.
type tenants struct {
	providerSide
	// enrollment gives access to the record of used tokens.
	enrollment enrollment.Options
}

func (r *tenants) setup(mgr ctrl.Manager) error {
	all := func() client.ObjectList { return &authv1beta1.TenantList{} }
	return kube.NewController(mgr, "tenant").
		For(&authv1beta1.Tenant{}).
		Owns(&corev1.Secret{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&rbacv1.RoleBinding{}).
		Watches(&corev1.Secret{}, sameNamespace(r.client, all), matching(labelled(authv1beta1.LabelNonce, api.True))).
		Watches(&corev1.Namespace{}, sameNamespace(r.client, all), onlyTenantNamespaces()).
		Watches(&certificatesv1.CertificateSigningRequest{}, requestedFor("Tenant")).
		Watches(&authv1beta1.ResourceSlice{}, sameNamespace(r.client, all), matching(copies), deletions()).
		Watches(&authv1beta1.Renew{}, sameNamespace(r.client, all), matching(copies), deletions()).
		Watches(&networkingv1beta1.NetworkRequest{}, sameNamespace(r.client, all), matching(copies), deletions()).
		Watches(&offloadingv1beta1.NamespaceMap{}, sameNamespace(r.client, all), matching(copies), deletions()).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			namespace, _, _ := strings.Cut(o.GetAnnotations()[offloadingv1beta1.AnnotationManagedByNamespaceMap], "/")
			return kube.Requests(ctx, r.client, all(), client.InNamespace(namespace))
		}), matching(func(o client.Object) bool { return inRemoteNamespace(o, "") })).
		Complete(r.accounts.Retiring(renewed(mgr.GetClient(), r.now, &kube.Reconciler[*authv1beta1.Tenant]{
			Name: "tenant", Client: r.client, Finalizer: peering.FinalizerTenant,
			Sync: r.sync, Finalize: r.end,
			Conditions: func(t *authv1beta1.Tenant) *[]metav1.Condition { return &t.Status.Conditions },
		}, func(t *authv1beta1.Tenant) *authv1beta1.AuthParams { return t.Status.AuthParams })))
}

func (r *tenants) sync(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if err := r.identify(ctx, tenant); err != nil {
		return err
	}
	tenant.Status.TenantNamespace = tenant.Namespace
	if !peering.GrantsOf(tenant).Access {
		return r.suspend(ctx, tenant)
	}
	o := accounts.Request{
		Owner: tenant, Account: tenant, Consumer: tenant.Spec.ClusterID, Request: tenant.Spec.CSR,
		Secret:  peering.CertificateSecretName(""),
		Subject: peering.ControlPlaneSubject(tenant.Spec.ClusterID),
		Present: tenant.Status.AuthParams,
	}
	if err := r.verify(ctx, tenant, o); err != nil {
		return err
	}
	if err := r.rememberKey(ctx, tenant); err != nil {
		return err
	}
	if err := r.bind(ctx, tenant); err != nil {
		return err
	}
	if err := errors.Join(r.endReport(ctx, tenant), r.accounts.Tidy(ctx, tenant), r.accounts.Retire(ctx, tenant)); err != nil {
		return err
	}
	if len(tenant.Spec.CSR) == 0 {
		tenant.Status.AuthParams = nil
		return nil // an administrator vouched for it, and it authenticates by other means
	}
	credential, err := r.signing.credential(ctx, o)
	if err != nil {
		return err
	}
	params, err := r.address.params(ctx, credential, tenant.Spec.ProxyURL)
	if err != nil {
		return err
	}
	if tenant.Status.AuthParams == nil {
		announce(r.events, tenant, reasons.Reconciled, "Admit", "admitted cluster %s: issued its %s and granted its permissions", tenant.Spec.ClusterID, peering.KindOf(credential))
	}
	tenant.Status.AuthParams = params
	return nil
}

// rememberKey writes the key of an admitted Tenant to its namespace. Policy liqo-tenant compares the key of a later Tenant with it.
func (r *tenants) rememberKey(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if len(tenant.Spec.PublicKey) == 0 {
		return nil // an administrator vouched for it
	}
	namespace := &corev1.Namespace{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: tenant.Namespace}, namespace); err != nil {
		return fmt.Errorf("reading Namespace %s: %w", tenant.Namespace, err)
	}
	key := base64.StdEncoding.EncodeToString(tenant.Spec.PublicKey)
	if namespace.Annotations[peering.AnnotationConsumerKey] == key {
		return nil
	}
	before := namespace.DeepCopy()
	metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, peering.AnnotationConsumerKey, key)
	if err := r.client.Patch(ctx, namespace, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("writing the key of cluster %s to Namespace %s: %w", tenant.Spec.ClusterID, namespace.Name, err)
	}
	return nil
}

// end revokes everything that a deleted Tenant had, and records that tokens created before the deletion do not authorize its cluster any more.
// Otherwise a consumer whose peering the administrator ended could enroll again with a token that it still has.
//
// A Tenant that was refused because another one is older owns at most a role binding. Everything else belongs to the older Tenant.
func (r *tenants) end(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if other, err := r.elder(ctx, tenant); err != nil {
		return err
	} else if other != nil {
		return r.unbindLocal(ctx, tenant)
	}
	if err := r.revoke(ctx, tenant); err != nil {
		return err
	}
	return enrollment.SpendTokens(ctx, &r.enrollment, tenant.Spec.ClusterID, tenant.DeletionTimestamp.Time)
}

// identify refuses a Tenant in the wrong namespace, and a second Tenant of a cluster or in a namespace. It also sets the label by which
// other code finds the Tenant.
func (r *tenants) identify(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if err := inTenantNamespace(ctx, r.client, tenant.Namespace, tenant.Spec.ClusterID); err != nil {
		return err
	}
	if other, err := r.elder(ctx, tenant); err != nil {
		return err
	} else if other != nil {
		return kube.Invalid(reasons.Duplicate, "Tenant %s/%s of cluster %q is older: there can be one Tenant per cluster and per namespace, so delete one of the two",
			other.Namespace, other.Name, other.Spec.ClusterID)
	}
	if tenant.Labels[api.LabelRemoteClusterID] == tenant.Spec.ClusterID {
		return nil
	}
	labelled := tenant.DeepCopy()
	_, err := kube.Ensure(ctx, r.client, labelled, func() error {
		metav1.SetMetaDataLabel(&labelled.ObjectMeta, api.LabelRemoteClusterID, tenant.Spec.ClusterID)
		return nil
	})
	return err
}

// elder returns an older Tenant of the same cluster or in the same namespace; nil if there is none.
func (r *tenants) elder(ctx context.Context, tenant *authv1beta1.Tenant) (*authv1beta1.Tenant, error) {
	list := &authv1beta1.TenantList{}
	if err := r.client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing Tenants: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		same := other.Spec.ClusterID == tenant.Spec.ClusterID || other.Namespace == tenant.Namespace
		if same && other.UID != tenant.UID && older(other, tenant) {
			return other, nil
		}
	}
	return nil, nil
}

func (r *tenants) verify(ctx context.Context, tenant *authv1beta1.Tenant, o accounts.Request) error {
	admitted, err := r.signing.issued(ctx, o)
	if err != nil {
		return err
	}
	known := admitted
	if len(tenant.Spec.CSR) == 0 { // no certificate was issued: its role binding shows whether it was admitted before
		if known, err = r.isBound(ctx, tenant); err != nil {
			return err
		}
	}
	if !known {
		if err := r.free(ctx, tenant.Spec.ClusterID); err != nil {
			return err
		}
	}
	nonces := &corev1.SecretList{}
	if err := r.client.List(ctx, nonces, client.InNamespace(tenant.Namespace), client.MatchingLabels{authv1beta1.LabelNonce: api.True}); err != nil {
		return fmt.Errorf("listing the nonce of namespace %s: %w", tenant.Namespace, err)
	}
	var nonce []byte
	for i := range nonces.Items {
		if nonces.Items[i].Name == authv1beta1.NonceSecret || len(nonces.Items) == 1 {
			nonce = nonces.Items[i].Data[authv1beta1.NonceKey]
		}
	}
	err = peering.CheckTenant(tenant, r.own, nonce, admitted)
	switch {
	case errors.Is(err, peering.ErrNoNonce):
		return kube.Wait(reasons.NonceNotFound, "waiting for Secret %s/%s: %v", tenant.Namespace, authv1beta1.NonceSecret, err)
	case errors.Is(err, peering.ErrSignature):
		return refuse(r.events, tenant, reasons.SignatureVerificationFailed, err)
	case err != nil:
		return refuse(r.events, tenant, reasons.InvalidCSR, err)
	}
	return nil
}

// isBound reports whether a Tenant already has its role binding.
func (r *tenants) isBound(ctx context.Context, tenant *authv1beta1.Tenant) (bool, error) {
	binding, _ := bindings(tenant)
	err := r.client.Get(ctx, client.ObjectKeyFromObject(binding), binding)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading RoleBinding %s/%s: %w", binding.Namespace, binding.Name, err)
	}
	return err == nil && metav1.IsControlledBy(binding, tenant), nil
}

// free refuses a cluster ID that is the name of a user or a group with rights in this cluster. verify calls it for new Tenants only: an
// administrator may grant further rights to the identities of an admitted consumer.
func (r *tenants) free(ctx context.Context, consumer string) error {
	local, wide := &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleBindingList{}
	if err := errors.Join(r.reader.List(ctx, local), r.reader.List(ctx, wide)); err != nil {
		return fmt.Errorf("listing bindings: %w", err)
	}
	bindings := make([]peering.Binding, 0, len(local.Items)+len(wide.Items))
	for i := range local.Items {
		b := &local.Items[i]
		bindings = append(bindings, peering.Binding{Namespace: b.Namespace, Name: b.Name, RoleRef: b.RoleRef, Subjects: b.Subjects})
	}
	for i := range wide.Items {
		b := &wide.Items[i]
		bindings = append(bindings, peering.Binding{Name: b.Name, RoleRef: b.RoleRef, Subjects: b.Subjects})
	}
	if err := peering.CheckFreeSubject(consumer, bindings); err != nil {
		return kube.Invalid(reasons.NameTaken, "%v", err)
	}
	return nil
}
