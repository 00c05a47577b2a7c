package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/reasons"
)

// linkSecrets runs one link for each control-plane kubeconfig Secret, and keeps the Secret until no object replicated with it is left. Only a Secret
// that belongs to an Identity of this cluster counts as such a kubeconfig; the labels alone do not suffice.
type linkSecrets struct {
	client client.Client
	links  *links
}

func controlPlaneSecret(o client.Object) bool {
	return o.GetLabels()[authv1beta1.LabelIdentityType] == string(authv1beta1.IdentityControlPlane)
}

// linkSecret matches control-plane kubeconfig Secrets with an Identity as their controller.
func linkSecret(o client.Object) bool { return controlPlaneSecret(o) && peering.IdentityOf(o) != "" }

func (r *linkSecrets) setup(mgr ctrl.Manager) error {
	inner := &kube.Reconciler[*corev1.Secret]{
		Name: "link", Client: r.client, Finalizer: peering.FinalizerReplicator, Sync: r.sync, Finalize: r.finalize,
		Wanted: func(secret *corev1.Secret) bool { return linkSecret(secret) },
	}
	all := func() client.ObjectList { return &corev1.SecretList{} }
	ours := client.MatchingLabels{authv1beta1.LabelIdentityType: string(authv1beta1.IdentityControlPlane)}
	return kube.NewController(mgr, "link").
		For(&corev1.Secret{}, matching(controlPlaneSecret)).
		Watches(&corev1.Namespace{}, secretsOf(r.client, authv1beta1.LabelIdentityType, string(authv1beta1.IdentityControlPlane)), onlyTenantNamespaces()).
		Watches(&authv1beta1.Identity{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: peering.KubeconfigSecretName(o.GetName())}}}
		}), matching(isControlPlane)).
		Watches(&authv1beta1.ResourceSlice{}, sameNamespace(r.client, all, ours), builder.WithPredicates(released)).
		Watches(&offloadingv1beta1.NamespaceMap{}, sameNamespace(r.client, all, ours), builder.WithPredicates(released)).
		Watches(&authv1beta1.Renew{}, sameNamespace(r.client, all, ours), builder.WithPredicates(released)).
		Watches(&networkingv1beta1.NetworkRequest{}, sameNamespace(r.client, all, ours), builder.WithPredicates(released)).
		Watches(&corev1beta1.ForeignCluster{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return kube.Requests(ctx, r.client, all(), ours, client.MatchingLabels{api.LabelRemoteClusterID: o.GetName()})
		}), matching(unreachable)).
		Complete(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			if err := r.client.Get(ctx, req.NamespacedName, &corev1.Secret{}); apierrors.IsNotFound(err) {
				r.links.stop(req.NamespacedName) // even if the finalizer was removed by someone else
			}
			return inner.Reconcile(ctx, req)
		}))
}

// held reports whether a finalizer keeps a source until its copy is deleted.
func held(o client.Object) bool {
	return controllerutil.ContainsFinalizer(o, peering.FinalizerReplicated)
}

// released passes the events after which a source is no longer held: the finalizers of Secrets wait for these. When the removal of the last
// finalizer deletes an object, the event has the last known state, which still includes that finalizer. Every deletion therefore passes.
var released = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(e event.UpdateEvent) bool { return held(e.ObjectOld) && !held(e.ObjectNew) },
	DeleteFunc:  func(event.DeleteEvent) bool { return true },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// unreachable matches ForeignClusters that an administrator declared permanently unreachable.
func unreachable(o client.Object) bool {
	return o.GetAnnotations()[peering.AnnotationUnreachable] == api.True
}

func (r *linkSecrets) sync(ctx context.Context, secret *corev1.Secret) error {
	if err := inTenantNamespace(ctx, r.client, secret.Namespace, secret.Labels[api.LabelRemoteClusterID]); err != nil {
		r.links.stop(client.ObjectKeyFromObject(secret))
		return err
	}
	identity := &authv1beta1.Identity{}
	name := peering.IdentityOf(secret)
	err := r.client.Get(ctx, types.NamespacedName{Namespace: secret.Namespace, Name: name}, identity)
	if apierrors.IsNotFound(err) { // either it is deleted, and the Secret will be, too; or it is not in the cache yet, and its event requeues the Secret
		return kube.Wait(reasons.IdentityNotFound, "waiting for Identity %s/%s", secret.Namespace, name)
	}
	if err != nil {
		return fmt.Errorf("reading Identity %s/%s: %w", secret.Namespace, name, err)
	}
	if err := peering.CheckKubeconfigSecret(secret, identity); err != nil {
		r.links.stop(client.ObjectKeyFromObject(secret))
		return kube.Invalid(reasons.NameTaken, "%v", err)
	}
	if err := r.links.ensure(secret); err != nil {
		return fmt.Errorf("opening the link to cluster %s: %w", secret.Labels[api.LabelRemoteClusterID], err)
	}
	return nil
}

// finalize returns nil, which lets the Secret be deleted, when no source in its namespace is held for its copy. The replication controllers observe
// the deletion of the Secret and delete the copies, for which they need the link. If no source is held, the Secret may be deleted even if its
// kubeconfig does not work.
func (r *linkSecrets) finalize(ctx context.Context, secret *corev1.Secret) error {
	provider := secret.Labels[api.LabelRemoteClusterID]
	// The Identity may be deleted by now, so its UID is not compared. No link was ever opened for a Secret that fails this check, so no
	// copy depends on it.
	if err := inTenantNamespace(ctx, r.client, secret.Namespace, provider); !linkSecret(secret) || kube.IsInvalid(err) {
		r.links.stop(client.ObjectKeyFromObject(secret))
		return nil
	} else if err != nil {
		return err
	}
	count, err := r.held(ctx, secret)
	if err != nil {
		return err
	}
	gone, err := isUnreachable(ctx, r.client, provider)
	if err != nil {
		return err
	}
	if count == 0 {
		if secret.Annotations[peering.AnnotationResign] == api.True && !gone {
			if err := r.resign(ctx, secret); err != nil {
				return err
			}
		}
		r.links.stop(client.ObjectKeyFromObject(secret))
		return nil
	}
	if !gone {
		if err := r.links.ensure(secret); err != nil {
			return fmt.Errorf("connecting to cluster %s to remove the copies of %d objects (annotation %s=true on ForeignCluster %s skips this): %w",
				provider, count, peering.AnnotationUnreachable, provider, err)
		}
	}
	return kube.Wait(reasons.DeletingCopies, "waiting for the deletion of the copies of %d objects in cluster %s", count, provider)
}

// resign deletes this cluster's Tenant in the provider, so that the provider revokes what it granted. It does nothing if the Tenant no
// longer exists or the provider denies access.
func (r *linkSecrets) resign(ctx context.Context, secret *corev1.Secret) error {
	provider := secret.Labels[api.LabelRemoteClusterID]
	if err := r.links.ensure(secret); err != nil {
		return nil //nolint:nilerr // without a usable kubeconfig, this cluster can't delete its Tenant
	}
	k := r.links.get(secret.Namespace)
	if k == nil {
		return kube.WaitFor(retrySoon, reasons.DeletingTenant, "waiting for the link to cluster %s", provider)
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: k.remoteNamespace, Name: r.links.own}}
	err := k.live.Delete(ctx, tenant)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return nil
	}
	return kube.WaitFor(enrollRetry, reasons.DeletingTenant, "waiting to delete the Tenant of this cluster in cluster %s: %v", provider, err)
}

// held counts the sources in the Secret's namespace that a finalizer keeps until their copy is deleted.
func (r *linkSecrets) held(ctx context.Context, secret *corev1.Secret) (int, error) {
	count := 0
	for _, list := range []client.ObjectList{&authv1beta1.ResourceSliceList{}, &offloadingv1beta1.NamespaceMapList{}, &authv1beta1.RenewList{}, &networkingv1beta1.NetworkRequestList{}} {
		if err := r.client.List(ctx, list, client.InNamespace(secret.Namespace)); err != nil {
			return 0, fmt.Errorf("listing the objects that are replicated to cluster %s: %w", secret.Labels[api.LabelRemoteClusterID], err)
		}
		_ = eachItem(list, func(o client.Object) error { // the function never fails
			if held(o) {
				count++
			}
			return nil
		})
	}
	return count, nil
}

// isUnreachable reports whether an administrator declared a cluster permanently unreachable.
func isUnreachable(ctx context.Context, c client.Reader, clusterID string) (bool, error) {
	fc := &corev1beta1.ForeignCluster{}
	err := c.Get(ctx, types.NamespacedName{Name: clusterID}, fc)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading ForeignCluster %s: %w", clusterID, err)
	}
	return err == nil && unreachable(fc), nil
}
