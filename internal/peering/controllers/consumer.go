package controllers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=authentication.liqo.io,resources=identities,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=identities/status,verbs=patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=identities/finalizers;resourceslices/finalizers,verbs=update
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices,verbs=get;list;watch;patch

// consumerSide holds the dependencies that the controllers of a consumer share.
type consumerSide struct {
	client client.Client
	events events.EventRecorder
	own    string
	keys   *keys
	now    func() time.Time
	random io.Reader
}

// request returns this cluster's certificate request for the subject, and the PEM public key in it. It returns the present request if that
// is still valid.
func (c *consumerSide) request(ctx context.Context, subject peering.Subject, present []byte) (request, publicKey []byte, err error) {
	key, err := c.keys.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	if peering.CheckRequest(present, subject, key.publicPEM) == nil {
		return present, key.publicPEM, nil
	}
	request, err = peering.NewRequest(c.random, key.signer, subject)
	return request, key.publicPEM, err
}

// identities writes a kubeconfig Secret for each Identity.
type identities struct {
	consumerSide
	links *links
}

func (r *identities) setup(mgr ctrl.Manager) error {
	all := func() client.ObjectList { return &authv1beta1.IdentityList{} }
	// Use several workers, so that an unresponsive authentication service does not block other peerings.
	return kube.NewController(mgr, "identity", controller.Options{MaxConcurrentReconciles: workers}).
		For(&authv1beta1.Identity{}).
		Owns(&corev1.Secret{}).
		Watches(&corev1.Secret{}, sameNamespace(r.client, all), matching(labelled(invite.Label, api.True))).
		Watches(&corev1.Namespace{}, sameNamespace(r.client, all), onlyTenantNamespaces()).
		Watches(&authv1beta1.Tenant{}, sameNamespace(r.client, all), builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		Complete(&kube.Reconciler[*authv1beta1.Identity]{
			Name: "identity", Client: r.client, Sync: r.sync,
			Conditions: func(i *authv1beta1.Identity) *[]metav1.Condition { return &i.Status.Conditions },
		})
}

func (r *identities) sync(ctx context.Context, identity *authv1beta1.Identity) error {
	if err := inTenantNamespace(ctx, r.client, identity.Namespace, identity.Spec.ClusterID); err != nil {
		return err
	}
	if invitation, err := r.invited(ctx, identity); err != nil {
		return err
	} else if invitation != nil {
		return r.introduce(ctx, identity, invitation)
	}
	if err := r.checkClaims(ctx, identity); err != nil {
		return err
	}
	key, err := r.keys.get(ctx)
	if err != nil {
		return err
	}
	kubeconfig, err := peering.Kubeconfig(identity, key.privatePEM)
	if err != nil {
		return kube.Invalid(reasons.InvalidAuthParams, "spec.%v", err)
	}
	if err := peering.CheckCredentialHolder(&identity.Spec.AuthParams, key.signer); err != nil {
		return kube.Invalid(reasons.InvalidAuthParams, "spec.%v", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: identity.Namespace, Name: peering.KubeconfigSecretName(identity.Name)}}
	changed, err := kube.Ensure(ctx, r.client, secret, func() error {
		label(secret, identity.Spec.ClusterID)
		secret.Labels[authv1beta1.LabelIdentityType] = string(identity.Spec.Type)
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, api.AnnotationRemoteTenantNamespace, identity.Spec.Namespace)
		if !bytes.Equal(secret.Data[authv1beta1.KubeconfigSecretKey], kubeconfig) {
			secret.Data = map[string][]byte{authv1beta1.KubeconfigSecretKey: kubeconfig}
		}
		return controllerutil.SetControllerReference(identity, secret, r.client.Scheme())
	})
	if err != nil {
		return err
	}
	if changed {
		announce(r.events, identity, reasons.KubeconfigEnsured, "Write", "wrote the kubeconfig to Secret %s", secret.Name)
	}
	identity.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: secret.Name}
	return r.reenroll(ctx, identity, key, kubeconfig)
}

// localSlices completes the ResourceSlices that this cluster requests from providers.
type localSlices struct{ consumerSide }

func (r *localSlices) setup(mgr ctrl.Manager) error {
	all := func() client.ObjectList { return &authv1beta1.ResourceSliceList{} }
	return kube.NewController(mgr, "local-resource-slice").
		For(&authv1beta1.ResourceSlice{}, matching(sources)).
		Watches(&corev1.Namespace{}, sameNamespace(r.client, all), onlyTenantNamespaces()).
		Complete(&kube.Reconciler[*authv1beta1.ResourceSlice]{
			Name: "local resource slice", Client: r.client, Sync: r.sync,
			Wanted: func(slice *authv1beta1.ResourceSlice) bool { return sources(slice) },
		})
}

func (r *localSlices) sync(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	provider := slice.Labels[api.LabelRemoteID]
	if err := inTenantNamespace(ctx, r.client, slice.Namespace, provider); err != nil {
		return err
	}
	request, _, err := r.request(ctx, peering.ResourceSliceSubject(slice.Name, r.own), slice.Spec.CSR)
	if err != nil {
		return err
	}
	slice = slice.DeepCopy()
	_, err = kube.Ensure(ctx, r.client, slice, func() error {
		slice.Labels[api.LabelRemoteClusterID] = provider
		slice.Spec.ConsumerClusterID, slice.Spec.ProviderClusterID = r.own, provider
		slice.Spec.CSR = request
		return nil
	})
	return err
}

// sliceIdentities writes an Identity for each of this cluster's ResourceSlices whose identity the provider accepted.
type sliceIdentities struct{ consumerSide }

func (r *sliceIdentities) setup(mgr ctrl.Manager) error {
	all := func() client.ObjectList { return &authv1beta1.ResourceSliceList{} }
	return kube.NewController(mgr, "resource-slice-identity").
		For(&authv1beta1.ResourceSlice{}, matching(sources)).
		Owns(&authv1beta1.Identity{}).
		Watches(&authv1beta1.Identity{}, sameNamespace(r.client, all), matching(isControlPlane)).
		Complete(&kube.Reconciler[*authv1beta1.ResourceSlice]{
			Name: "resource slice identity", Client: r.client, Sync: r.sync,
			Wanted: func(slice *authv1beta1.ResourceSlice) bool { return sources(slice) },
		})
}

func isControlPlane(o client.Object) bool {
	identity, ok := o.(*authv1beta1.Identity)
	return ok && identity.Spec.Type == authv1beta1.IdentityControlPlane
}

func (r *sliceIdentities) sync(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	params := slice.Status.AuthParams
	if params == nil || peering.ConditionOf(&slice.Status, authv1beta1.ResourceSliceAuthentication) != authv1beta1.ResourceSliceAccepted {
		return nil
	}
	provider := slice.Labels[api.LabelRemoteID]
	there, err := r.remoteNamespace(ctx, slice.Namespace, provider)
	if err != nil {
		return err
	}
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: peering.SliceIdentityName(slice.Name)}}
	changed, err := kube.Ensure(ctx, r.client, identity, func() error {
		label(identity, provider)
		identity.Labels[api.LabelResourceSliceName] = slice.Name
		identity.Spec = authv1beta1.IdentitySpec{
			ClusterID: provider, Type: authv1beta1.IdentityResourceSlice, AuthParams: *params.DeepCopy(), Namespace: there,
		}
		return controllerutil.SetControllerReference(slice, identity, r.client.Scheme())
	})
	if changed {
		announce(r.events, slice, reasons.IdentityEnsured, "Write", "wrote Identity %s", identity.Name)
	}
	return err
}

// remoteNamespace returns the tenant namespace of this cluster in the provider, from the oldest control-plane Identity that names one. Without
// such an Identity it returns the default name.
func (c *consumerSide) remoteNamespace(ctx context.Context, namespace, provider string) (string, error) {
	list := &authv1beta1.IdentityList{}
	if err := c.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("listing Identities in namespace %s: %w", namespace, err)
	}
	var first *authv1beta1.Identity
	for i := range list.Items {
		identity := &list.Items[i]
		named := isControlPlane(identity) && identity.Spec.ClusterID == provider && identity.Spec.Namespace != ""
		if named && (first == nil || older(identity, first)) {
			first = identity
		}
	}
	if first == nil {
		return api.TenantNamespace(c.own), nil
	}
	return first.Spec.Namespace, nil
}
