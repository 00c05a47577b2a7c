package controllers

import (
	"context"
	"fmt"
	"reflect"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/accounts"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=authentication.liqo.io,resources=renews,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=renews/status,verbs=patch

// renewed wraps a reconciler, so that an object with a credential is requeued when the credential should be renewed.
func renewed[T client.Object](c client.Client, now func() time.Time, inner reconcile.Reconciler, paramsOf func(T) *authv1beta1.AuthParams) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		result, err := inner.Reconcile(ctx, req)
		if err != nil || result.RequeueAfter > 0 {
			return result, err
		}
		obj := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
		if err := c.Get(ctx, req.NamespacedName, obj); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		credential, err := peering.CredentialOf(paramsOf(obj))
		if err != nil {
			return reconcile.Result{}, nil // no credential yet; the event that adds one requeues the object
		}
		if !credential.Expires() {
			return reconcile.Result{}, nil
		}
		if left := credential.RenewAt().Sub(now()); left > 0 {
			return reconcile.Result{RequeueAfter: left}, nil
		}
		return reconcile.Result{RequeueAfter: overdue}, nil
	})
}

// overdue is the interval at which objects with an overdue renewal are reconciled. Normally an event reports the new certificate, so the interval
// only matters if that event is missing.
const overdue = time.Minute

// renewals renews the certificates and tokens of this cluster's control-plane Identities, each by a Renew of the same name. The certificates of
// ResourceSlices need no Renew: the provider renews them by itself, and they arrive in the status of the ResourceSlice.
type renewals struct{ consumerSide }

func (r *renewals) setup(mgr ctrl.Manager) error {
	return kube.NewController(mgr, "renewal").
		For(&authv1beta1.Identity{}, matching(isControlPlane)).
		Owns(&authv1beta1.Renew{}).
		Complete(renewed(r.client, r.now, &kube.Reconciler[*authv1beta1.Identity]{
			Name: "renewal", Client: r.client, Sync: r.sync,
			Wanted: func(identity *authv1beta1.Identity) bool { return isControlPlane(identity) },
		}, func(identity *authv1beta1.Identity) *authv1beta1.AuthParams { return &identity.Spec.AuthParams }))
}

func (r *renewals) sync(ctx context.Context, identity *authv1beta1.Identity) error {
	renew := &authv1beta1.Renew{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(identity), renew)
	if apierrors.IsNotFound(err) {
		renew, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("reading Renew %s/%s: %w", identity.Namespace, identity.Name, err)
	}
	plan, err := peering.PlanRenewal(identity, renew, r.now())
	switch {
	case err != nil:
		return kube.Invalid(reasons.InvalidAuthParams, "%v", err)
	case plan.Adopt:
		return r.adopt(ctx, identity.DeepCopy(), renew)
	case plan.Ask:
		return r.ask(ctx, identity)
	case renew != nil && metav1.IsControlledBy(renew, identity):
		return kube.Delete(ctx, r.client, renew) // its certificate has been taken over
	}
	return nil
}

func (r *renewals) adopt(ctx context.Context, identity *authv1beta1.Identity, renew *authv1beta1.Renew) error {
	key, err := r.keys.get(ctx)
	if err != nil {
		return err
	}
	if err := peering.CheckCredentialHolder(renew.Status.AuthParams, key.signer); err != nil {
		return fmt.Errorf("refusing the answer of cluster %s: %w", identity.Spec.ClusterID, err)
	}
	if renew.Status.AuthParams.AwsConfig != nil && identity.Spec.AuthParams.AwsConfig == nil {
		return fmt.Errorf("refusing the answer of cluster %s: it contains an AWS access key instead of a certificate or token, and only a handshake may change the kind of credential", identity.Spec.ClusterID)
	}
	changed, err := kube.Ensure(ctx, r.client, identity, func() error {
		// Take over the credential and the CA only: the address of the provider was fixed by the handshake.
		peering.Adopt(&identity.Spec.AuthParams, renew.Status.AuthParams)
		if len(renew.Status.AuthParams.CA) > 0 {
			identity.Spec.AuthParams.CA = renew.Status.AuthParams.CA
		}
		return nil
	})
	if changed {
		announce(r.events, identity, reasons.CertificateRenewed, "Renew", "cluster %s renewed the %s", identity.Spec.ClusterID, peering.KindOf(renew.Status.AuthParams))
	}
	return err
}

func (r *renewals) ask(ctx context.Context, identity *authv1beta1.Identity) error {
	renew := &authv1beta1.Renew{ObjectMeta: metav1.ObjectMeta{Namespace: identity.Namespace, Name: identity.Name}}
	_, err := kube.Ensure(ctx, r.client, renew, func() error {
		request, publicKey, err := r.request(ctx, peering.ControlPlaneSubject(r.own), renew.Spec.CSR)
		if err != nil {
			return err
		}
		label(renew, identity.Spec.ClusterID)
		renew.Labels[api.LabelReplication] = api.True
		renew.Labels[api.LabelRemoteID] = identity.Spec.ClusterID
		renew.Spec = authv1beta1.RenewSpec{
			ConsumerClusterID: r.own, IdentityType: identity.Spec.Type, PublicKey: publicKey, CSR: request,
		}
		return controllerutil.SetControllerReference(identity, renew, r.client.Scheme())
	})
	return err
}

// remoteRenewals issues new certificates and tokens for the Renews of consumers.
type remoteRenewals struct{ providerSide }

func (r *remoteRenewals) setup(mgr ctrl.Manager) error {
	all := func() client.ObjectList { return &authv1beta1.RenewList{} }
	return kube.NewController(mgr, "remote-renewal").
		For(&authv1beta1.Renew{}, matching(copies)).
		Owns(&corev1.Secret{}).
		Watches(&authv1beta1.Tenant{}, sameNamespace(r.client, all)).
		Watches(&authv1beta1.ResourceSlice{}, sameNamespace(r.client, all), matching(copies)).
		Watches(&certificatesv1.CertificateSigningRequest{}, requestedFor("Renew")).
		Complete(&kube.Reconciler[*authv1beta1.Renew]{
			Name: "remote renewal", Client: r.client, Sync: r.sync,
			Wanted: func(renew *authv1beta1.Renew) bool { return copies(renew) },
		})
}

func (r *remoteRenewals) sync(ctx context.Context, renew *authv1beta1.Renew) error {
	tenant, err := r.tenantOf(ctx, renew.Namespace)
	if err != nil {
		return err
	}
	if tenant == nil || !peering.IsCopy(renew, tenant.Spec.ClusterID) {
		return kube.Wait(reasons.TenantNotFound, "waiting for the Tenant of namespace %s", renew.Namespace)
	}
	var slice *authv1beta1.ResourceSlice
	if ref := renew.Spec.ResourceSliceRef; ref != nil {
		slice = &authv1beta1.ResourceSlice{}
		err := r.client.Get(ctx, client.ObjectKey{Namespace: renew.Namespace, Name: ref.Name}, slice)
		if apierrors.IsNotFound(err) {
			slice, err = nil, nil
		}
		if err != nil {
			return fmt.Errorf("reading ResourceSlice %s/%s: %w", renew.Namespace, ref.Name, err)
		}
	}
	subject, err := peering.CheckRenew(renew, tenant, slice)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("Refused to renew a certificate", "clusterID", tenant.Spec.ClusterID, "reason", err.Error())
		renew.Status.AuthParams = nil
		return nil
	}
	// The controllers of Tenants and of ResourceSlices renew the certificates in these objects by themselves. If there is such a
	// certificate, it is the response, so that each identity has one certificate. If that certificate does not fit yet, the next change of
	// the Tenant or ResourceSlice requeues this Renew.
	holder, account := tenant.Status.AuthParams, client.Object(tenant)
	if renew.Spec.IdentityType == authv1beta1.IdentityResourceSlice {
		holder, account = slice.Status.AuthParams, slice
	}
	if peering.Granted(holder) {
		if peering.CheckCredential(holder, renew.Spec.CSR, subject, r.now()) == nil {
			renew.Status.AuthParams = holder.DeepCopy()
			if len(peering.CertificateIn(holder)) > 0 && renew.Spec.IdentityType == authv1beta1.IdentityControlPlane {
				return r.accounts.Supersede(ctx, renew.Namespace)
			}
		}
		return nil
	}
	// There is no credential to return: the ResourceSlice is denied or not accepted yet, or the Tenant is not admitted. A Renew must not grant more.
	// Only one control plane gets its credential by Renews alone: that of a Tenant that an administrator vouches for and that has no certificate
	// request.
	if renew.Spec.IdentityType != authv1beta1.IdentityControlPlane || len(tenant.Spec.CSR) > 0 || tenant.Spec.AuthzPolicy != authv1beta1.TolerateNoHandshake {
		renew.Status.AuthParams = nil
		return nil
	}
	credential, err := r.signing.credential(ctx, accounts.Request{
		Owner: renew, Consumer: tenant.Spec.ClusterID, Request: renew.Spec.CSR, Subject: subject,
		Secret:  peering.CertificateSecretName("renew-" + renew.Name),
		Present: renew.Status.AuthParams, Account: account,
	})
	if err != nil {
		return err
	}
	if renew.Status.AuthParams, err = r.address.params(ctx, credential, tenant.Spec.ProxyURL); err == nil && len(credential.SignedCRT) > 0 {
		err = r.accounts.Supersede(ctx, renew.Namespace)
	}
	return err
}
