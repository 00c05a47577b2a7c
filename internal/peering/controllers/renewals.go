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
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=authentication.liqo.io,resources=renews,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=renews/status,verbs=patch

// renewed wraps a reconciler, so that an object with a certificate is requeued when the certificate should be renewed.
func renewed[T client.Object](c client.Client, now func() time.Time, inner reconcile.Reconciler, certificateOf func(T) []byte) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		result, err := inner.Reconcile(ctx, req)
		if err != nil || result.RequeueAfter > 0 {
			return result, err
		}
		obj := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
		if err := c.Get(ctx, req.NamespacedName, obj); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		certificate, err := peering.Certificate(certificateOf(obj))
		if err != nil {
			return reconcile.Result{}, nil // no certificate yet; the event that adds one requeues the object
		}
		if left := peering.RenewAt(certificate).Sub(now()); left > 0 {
			return reconcile.Result{RequeueAfter: left}, nil
		}
		return reconcile.Result{RequeueAfter: overdue}, nil
	})
}

// overdue is the interval at which objects with an overdue renewal are reconciled. Normally an event reports the new certificate; this is
// for renewals whose event does not come.
const overdue = time.Minute

// renewals renews the certificates of this cluster's control-plane Identities, each by a Renew of the same name. The certificates of
// ResourceSlices need no Renew: the provider renews them by itself, and they arrive in the status of the ResourceSlice.
type renewals struct{ consumerSide }

func (r *renewals) setup(mgr ctrl.Manager) error {
	return kube.NewController(mgr, "renewal").
		For(&authv1beta1.Identity{}, only(isControlPlane)).
		Owns(&authv1beta1.Renew{}).
		Complete(renewed(r.client, r.now, &kube.Reconciler[*authv1beta1.Identity]{
			Name: "renewal", Client: r.client, Sync: r.sync,
			Wanted: func(identity *authv1beta1.Identity) bool { return isControlPlane(identity) },
		}, func(identity *authv1beta1.Identity) []byte { return identity.Spec.AuthParams.SignedCRT }))
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
	if err := peering.CheckHolder(renew.Status.AuthParams.SignedCRT, key.signer); err != nil {
		return fmt.Errorf("refusing the answer of cluster %s: %w", identity.Spec.ClusterID, err)
	}
	changed, err := kube.Ensure(ctx, r.client, identity, func() error {
		// Take over the certificates only: the address of the provider was fixed by the handshake.
		identity.Spec.AuthParams.SignedCRT = renew.Status.AuthParams.SignedCRT
		if len(renew.Status.AuthParams.CA) > 0 {
			identity.Spec.AuthParams.CA = renew.Status.AuthParams.CA
		}
		return nil
	})
	if changed {
		announce(r.events, identity, reasons.CertificateRenewed, "Renew", "cluster %s renewed the certificate", identity.Spec.ClusterID)
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

// remoteRenewals issues new certificates for the Renews of consumers.
type remoteRenewals struct{ providerSide }

func (r *remoteRenewals) setup(mgr ctrl.Manager) error {
	all := func() client.ObjectList { return &authv1beta1.RenewList{} }
	return kube.NewController(mgr, "remote-renewal").
		For(&authv1beta1.Renew{}, only(copies)).
		Owns(&corev1.Secret{}).
		Watches(&authv1beta1.Tenant{}, sameNamespace(r.client, all)).
		Watches(&authv1beta1.ResourceSlice{}, sameNamespace(r.client, all), only(copies)).
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
	holder := tenant.Status.AuthParams
	if renew.Spec.IdentityType == authv1beta1.IdentityResourceSlice {
		holder = slice.Status.AuthParams
	}
	if len(signed(holder)) > 0 {
		if peering.CheckCertificate(holder.SignedCRT, renew.Spec.CSR, subject, r.now()) == nil {
			renew.Status.AuthParams = holder.DeepCopy()
		}
		return nil
	}
	certificate, err := r.signing.certificate(ctx, order{
		owner: renew, consumer: tenant.Spec.ClusterID, request: renew.Spec.CSR, subject: subject,
		secret:  peering.CertificateSecretName("renew-" + renew.Name),
		present: signed(renew.Status.AuthParams),
	})
	if err != nil {
		return err
	}
	renew.Status.AuthParams, err = r.address.params(ctx, certificate, tenant.Spec.ProxyURL)
	return err
}
