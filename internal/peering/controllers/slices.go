package controllers

import (
	"context"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/accounts"
	"liqo.io/liqo/internal/peering/sharing"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices/status,verbs=patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=quotas,verbs=get;list;watch;create;patch;delete

// remoteSlices decides on the ResourceSlices of consumers: whether each gets an identity, and which resources.
type remoteSlices struct {
	providerSide
	offer sharing.Offer
	// storageClasses is nil if no storage classes are offered.
	storageClasses func(context.Context) ([]authv1beta1.StorageType, error)
	sharing        *sharer
}

func (r *remoteSlices) setup(mgr ctrl.Manager) error {
	all := func() client.ObjectList { return &authv1beta1.ResourceSliceList{} }
	controller := kube.NewController(mgr, "remote-resource-slice")
	if r.storageClasses != nil {
		controller.Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
			return kube.Requests(ctx, r.client, all())
		}))
	}
	return controller.For(&authv1beta1.ResourceSlice{}, matching(copies)).
		Owns(&corev1.Secret{}).
		Owns(&corev1.ServiceAccount{}).
		Watches(&authv1beta1.Tenant{}, sameNamespace(r.client, all)).
		Watches(&certificatesv1.CertificateSigningRequest{}, requestedFor("ResourceSlice")).
		WatchesRawSource(r.sharing.moved.source()).
		Complete(r.accounts.Retiring(renewed(r.client, r.now, &kube.Reconciler[*authv1beta1.ResourceSlice]{
			Name: "remote resource slice", Client: r.client, Sync: r.sync,
			Wanted: func(slice *authv1beta1.ResourceSlice) bool { return copies(slice) },
		}, func(slice *authv1beta1.ResourceSlice) *authv1beta1.AuthParams { return slice.Status.AuthParams })))
}

func (r *remoteSlices) sync(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	before := slices.Clone(slice.Status.Conditions)
	if err := r.decide(ctx, slice); err != nil {
		return err
	}
	announceVerdicts(r.events, slice, before)
	return nil
}

func (r *remoteSlices) decide(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	tenant, err := r.tenantOf(ctx, slice.Namespace)
	if err != nil {
		return err
	}
	if tenant == nil || !peering.IsCopy(slice, tenant.Spec.ClusterID) {
		return kube.Wait(reasons.TenantNotFound, "waiting for the Tenant of namespace %s", slice.Namespace)
	}
	now := metav1.NewTime(r.now())
	grants := peering.GrantsOf(tenant)
	share, err := r.sharing.shareOf(ctx, slice)
	if err != nil {
		return err
	}
	denied := sharing.CheckSlice(slice, tenant, r.own)
	if denied == nil && share.Refused != "" {
		denied = sharing.TooMany(share.Refused) // it gets no identity either
	}
	if denied != nil {
		share.Refused = denied.Error()
		sharing.SetAuthentication(&slice.Status, nil, denied, now)
		sharing.DecideResources(slice, grants, r.offer, share, now)
		return nil
	}
	if !grants.Access {
		sharing.DecideResources(slice, grants, r.offer, share, now)
		return nil // its rights are revoked; the controller of Tenants deletes this copy
	}
	credential, err := r.signing.credential(ctx, accounts.Request{
		Owner: slice, Account: slice, Consumer: tenant.Spec.ClusterID, Request: slice.Spec.CSR,
		Secret:  peering.CertificateSecretName(slice.Name),
		Subject: peering.ResourceSliceSubject(slice.Name, tenant.Spec.ClusterID),
		Present: slice.Status.AuthParams,
	})
	if err != nil {
		return err
	}
	if err := r.accounts.RetireOf(ctx, tenant, slice); err != nil {
		return err
	}
	params, err := r.address.params(ctx, credential, tenant.Spec.ProxyURL)
	if err != nil {
		return err
	}
	offer := r.offer
	if r.storageClasses != nil {
		if offer.StorageClasses, err = r.storageClasses(ctx); err != nil {
			return err
		}
	}
	// Both verdicts go into one write, because each write is replicated to the consumer.
	sharing.SetAuthentication(&slice.Status, params, nil, now)
	sharing.DecideResources(slice, grants, offer, share, now)
	return nil
}

// quotas maintains a Quota for each accepted ResourceSlice. The Quota limits the resources of the ResourceSlice's user.
type quotas struct {
	providerSide
	enforcement offloadingv1beta1.LimitsEnforcement
}

func (r *quotas) setup(mgr ctrl.Manager) error {
	all := func() client.ObjectList { return &authv1beta1.ResourceSliceList{} }
	return kube.NewController(mgr, "quota").
		For(&authv1beta1.ResourceSlice{}, matching(copies)).
		Owns(&offloadingv1beta1.Quota{}).
		Watches(&authv1beta1.Tenant{}, sameNamespace(r.client, all)).
		Complete(&kube.Reconciler[*authv1beta1.ResourceSlice]{
			Name: "quota", Client: r.client, Sync: r.sync,
			Wanted: func(slice *authv1beta1.ResourceSlice) bool { return copies(slice) },
		})
}

func (r *quotas) sync(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	tenant, err := r.tenantOf(ctx, slice.Namespace)
	if err != nil || tenant == nil || !peering.IsCopy(slice, tenant.Spec.ClusterID) {
		return err
	}
	quota := &offloadingv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{
		Namespace: slice.Namespace, Name: peering.ResourceSliceSubject(slice.Name, tenant.Spec.ClusterID).User,
	}}
	want := sharing.QuotaOf(slice, tenant, r.enforcement)
	if want == nil {
		if err := r.client.Get(ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return client.IgnoreNotFound(err)
		}
		if !metav1.IsControlledBy(quota, slice) {
			return nil
		}
		return kube.Delete(ctx, r.client, quota)
	}
	_, err = kube.Ensure(ctx, r.client, quota, func() error {
		label(quota, tenant.Spec.ClusterID)
		quota.Spec = *want
		return controllerutil.SetControllerReference(slice, quota, r.client.Scheme())
	})
	return err
}
