package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/sharing"
)

// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps/status,verbs=patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=networkrequests,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=networking.liqo.io,resources=networkrequests/status,verbs=patch

// retrySoon is the time until a removal is checked again if no watch will report it: the provider allows deletion but no watch.
const retrySoon = time.Second

const (
	// remoteTimeout is the timeout of all requests to a provider in one reconciliation: the connection may be broken before the health
	// check has noticed.
	remoteTimeout = 10 * time.Second
	// workers is the number of objects of a kind that are replicated at the same time, so that one slow provider does not block the others.
	workers = 4
)

// replication maintains the copy of every source in the provider, and brings the status of the copy back to the source. While a provider is
// unreachable, replication to it waits: only the provider can confirm that a copy is deleted.
type replication struct {
	client client.Client
	own    string
	links  *links
}

func (r *replication) setup(mgr ctrl.Manager) error {
	for _, kind := range peering.Kinds() {
		gvk, err := apiutil.GVKForObject(kind.New(), mgr.GetScheme())
		if err != nil {
			return err
		}
		all := func() client.ObjectList {
			list, err := mgr.GetScheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
			if err != nil {
				panic(err) // every API kind has a list kind in the scheme
			}
			return list.(client.ObjectList)
		}
		if err := kube.NewController(mgr, "replication-"+strings.ToLower(kind.Name), controller.Options{MaxConcurrentReconciles: workers}).
			For(kind.New(), matching(func(o client.Object) bool {
				return sources(o) || controllerutil.ContainsFinalizer(o, peering.FinalizerReplicated)
			})).
			Watches(&corev1.Secret{}, sameNamespace(r.client, all), matching(controlPlaneSecret)).
			Watches(&corev1beta1.ForeignCluster{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
				return kube.Requests(ctx, r.client, all(), client.MatchingLabels{api.LabelRemoteID: o.GetName()})
			}), matching(unreachable)).
			WatchesRawSource(r.links.objects[kind.Name].source()).
			WatchesRawSource(mappedSource(&r.links.resync, func(ctx context.Context, req reconcile.Request) []reconcile.Request {
				return kube.Requests(ctx, r.client, all(), client.InNamespace(req.Name))
			})).
			Complete(&replicator{replication: *r, kind: kind}); err != nil {
			return fmt.Errorf("replicating %s: %w", kind.Name, err)
		}
	}
	return nil
}

// replicator replicates one kind.
type replicator struct {
	replication
	kind peering.Kind
	// statuses limits how often the status of each source is written.
	statuses kube.Pace
}

// Reconcile executes the next step in the replication of one source. It is no kube.Reconciler, because it decides from two clusters, one write at a time.
func (r *replicator) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	source := r.kind.New()
	if err := r.client.Get(ctx, req.NamespacedName, source); err != nil {
		if apierrors.IsNotFound(err) {
			r.statuses.Forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	held := controllerutil.ContainsFinalizer(source, peering.FinalizerReplicated)
	deleting := !source.GetDeletionTimestamp().IsZero()
	if !held && (deleting || !peering.Selected(source)) {
		return reconcile.Result{}, nil
	}
	provider := source.GetLabels()[api.LabelRemoteID]
	secret, err := r.secret(ctx, source.GetNamespace(), provider)
	if err != nil {
		return reconcile.Result{}, err
	}
	leaving := deleting || !peering.Selected(source) || (secret != nil && !secret.DeletionTimestamp.IsZero())
	gone, err := isUnreachable(ctx, r.client, provider)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case leaving && (gone || secret == nil):
		// The provider is permanently unreachable, or this cluster has no identity to reach it with. So the source does not wait for its copy.
		return outcome(r.release(ctx, source))
	case gone || secret == nil:
		return reconcile.Result{}, nil
	}
	k := r.links.get(source.GetNamespace())
	if k == nil || k.clusterID != provider {
		return reconcile.Result{}, nil
	}
	if slice, ok := source.(*authv1beta1.ResourceSlice); ok && !leaving {
		if since := k.deniedSince(); !since.IsZero() {
			// An API server that is starting refuses access, too.
			if wait := time.Until(since.Add(2 * r.links.rightsEvery)); wait > 0 {
				return reconcile.Result{RequeueAfter: wait}, nil
			}
			// Without access, this cluster can't read whether the provider's decisions still hold. When the provider grants access again, the status of the
			// copy, or of a new one, replaces this status.
			return r.withdraw(ctx, slice)
		}
	}
	if !k.up() {
		return reconcile.Result{}, nil // the link announces when it is up
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	copy, known, err := r.copy(ctx, k, source, leaving)
	if apierrors.IsForbidden(err) && leaving {
		// The provider revoked our rights. If it deleted our Tenant, it deletes the copies, too. If it drained our Tenant, it keeps the remote namespaces until the
		// Tenant is deleted: only we could ask it to delete them.
		return outcome(r.release(ctx, source))
	}
	if err != nil || !known {
		return reconcile.Result{}, err
	}
	link := peering.Link{
		Own: r.own, Remote: provider, RemoteNamespace: k.remoteNamespace, Withdrawn: !secret.DeletionTimestamp.IsZero(),
	}
	step := r.kind.Plan(link, source, copy)
	var wait time.Duration
	if step.Status != nil {
		if wait = r.statuses.Take(req.NamespacedName, time.Now()); wait > 0 { // the provider changes it too often
			step.Status = nil
		}
	}
	err = r.apply(ctx, k, source, copy, step)
	if apierrors.IsForbidden(err) {
		if k.isRefused() { // the provider denies all access; the link announces when access returns
			return reconcile.Result{}, nil
		}
		k.doubt()
	}
	result, err := outcome(err)
	if err == nil && leaving && step.Wait != "" && k.copies(r.kind.Name) == nil {
		result.RequeueAfter = retrySoon
	}
	if err == nil && wait > 0 && result.RequeueAfter == 0 {
		result.RequeueAfter = wait
	}
	return result, err
}

// withdraw shows in the status of a ResourceSlice that its provider denies this cluster all access.
func (r *replicator) withdraw(ctx context.Context, slice *authv1beta1.ResourceSlice) (reconcile.Result, error) {
	denied := sharing.WithAccessDenied(slice, metav1.Now())
	if denied == nil {
		return reconcile.Result{}, nil
	}
	if wait := r.statuses.Take(client.ObjectKeyFromObject(slice), time.Now()); wait > 0 { // the provider grants and denies access too often
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.client.Status().Patch(ctx, denied, client.MergeFrom(slice)); client.IgnoreNotFound(err) != nil {
		return outcome(fmt.Errorf("recording in ResourceSlice %s/%s that cluster %s denies access: %w", slice.Namespace, slice.Name, slice.Spec.ProviderClusterID, err))
	}
	return reconcile.Result{}, nil
}

// secret returns the control-plane kubeconfig Secret for a provider; nil when there is none.
func (r *replicator) secret(ctx context.Context, namespace, provider string) (*corev1.Secret, error) {
	list := &corev1.SecretList{}
	err := r.client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{
		authv1beta1.LabelIdentityType: string(authv1beta1.IdentityControlPlane), api.LabelRemoteClusterID: provider,
	})
	if err != nil {
		return nil, fmt.Errorf("listing kubeconfigs in namespace %s: %w", namespace, err)
	}
	for i := range list.Items {
		if secret := &list.Items[i]; linkSecret(secret) {
			return secret, nil
		}
	}
	return nil, nil
}

// copy returns the copy of a source; known is false as long as the cache of copies has not synced. During a removal it reads from the
// provider's API server: an outdated cache must not end a removal early.
func (r *replicator) copy(ctx context.Context, k *link, source client.Object, leaving bool) (copy peering.Object, known bool, err error) {
	var reader client.Reader = k.live
	if !leaving {
		if reader = k.copies(r.kind.Name); reader == nil {
			return nil, false, nil
		}
	}
	copy = r.kind.New()
	err = reader.Get(ctx, client.ObjectKey{Namespace: k.remoteNamespace, Name: source.GetName()}, copy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, true, nil
	case err != nil:
		return nil, false, fmt.Errorf("reading the copy of %s %s in cluster %s: %w", r.kind.Name, source.GetName(), k.clusterID, err)
	}
	return copy, true, nil
}

// raceDelay is the delay before a reconciliation that lost a race is retried, so that caches can catch up.
const raceDelay = 20 * time.Millisecond

// outcome turns conflicts into retries without an error: another client wrote first, or a cache is outdated.
func outcome(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: raceDelay}, nil
	}
	return reconcile.Result{}, err
}
