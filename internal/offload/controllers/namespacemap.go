package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/reasons"
)

// FinalizerNamespaceMap holds a NamespaceMap replicated from a consumer until the namespaces created for it are gone.
const FinalizerNamespaceMap = "namespacemap-controller.liqo.io/finalizer"

// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps/status,verbs=patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=tenants,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list
// +kubebuilder:rbac:groups="",resources=resourcequotas;limitranges,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=resourcequotas/status,verbs=patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=bind,resourceNames=liqo-virtual-kubelet-remote

// namespaceMaps creates, on the provider, the namespaces that the replicated NamespaceMap of a consumer requests.
type namespaceMaps struct {
	client.Client
	Options
	events events.EventRecorder
	// objects counts what the API server does not count; nil means that the API server counts everything.
	objects *objectCounts
}

func setupNamespaceMap(mgr ctrl.Manager, opts Options) error {
	r := &namespaceMaps{Client: mgr.GetClient(), Options: opts, events: kube.EventRecorder(mgr, "namespacemap")}
	if err := r.setupQuotas(mgr); err != nil {
		return err
	}
	return kube.NewController(mgr, "namespacemap").
		WatchesRawSource(ready{r.objects}).
		For(&offloadingv1beta1.NamespaceMap{}, builder.WithPredicates(predicate.NewPredicateFuncs(isCopy))).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.mapsAffected)).
		Watches(&authv1beta1.Tenant{}, handler.EnqueueRequestsFromMapFunc(r.mapsIn), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(mapOf)).
		Watches(&corev1.LimitRange{}, handler.EnqueueRequestsFromMapFunc(mapOf)).
		Watches(&corev1.ResourceQuota{}, handler.EnqueueRequestsFromMapFunc(mapOf), builder.WithPredicates(kube.Updates(otherQuota))).
		Complete(&kube.Reconciler[*offloadingv1beta1.NamespaceMap]{
			Name: "namespacemap", Client: mgr.GetClient(), Finalizer: FinalizerNamespaceMap, Sync: r.sync, Finalize: r.finalize,
			Wanted: func(m *offloadingv1beta1.NamespaceMap) bool { return isCopy(m) },
		})
}

func (r *namespaceMaps) sync(ctx context.Context, m *offloadingv1beta1.NamespaceMap) error {
	consumer := m.Labels[api.LabelOriginID]
	if consumer == "" {
		return kube.Invalid(reasons.MissingOriginLabel, "NamespaceMap %s/%s has no label %s: a consumer that replicates a NamespaceMap sets it to its cluster ID", m.Namespace, m.Name, api.LabelOriginID)
	}
	plan, err := r.enforce(ctx, m, consumer)
	if err != nil {
		return err
	}
	former := len(plan.Retained)
	for _, pair := range plan.Ensure {
		if pair.Inherited {
			former++
		}
	}
	if former > 0 {
		return kube.WaitFor(retainedRetry, offloadingv1beta1.ReasonVolumesKept, "waiting for the deletion of the claims in %d namespaces that cluster %s has not released", former, consumer)
	}
	return nil
}

// retainedRetry is the interval for re-reading the claims in retained namespaces: their consumer has not released them. Claims are not watched.
const retainedRetry = time.Minute

func (r *namespaceMaps) finalize(ctx context.Context, m *offloadingv1beta1.NamespaceMap) error {
	plan, err := r.enforce(ctx, m, m.Labels[api.LabelOriginID])
	if err != nil {
		return err
	}
	if len(plan.Remaining) > 0 {
		return kube.Wait(offloadingv1beta1.ReasonTerminating, "waiting for the deletion of namespaces %v", plan.Remaining)
	}
	return nil
}

// enforce executes the plan of offload.Enforce, and returns it.
func (r *namespaceMaps) enforce(ctx context.Context, m *offloadingv1beta1.NamespaceMap, consumer string) (*offload.Enforcement, error) {
	var namespaces corev1.NamespaceList
	if err := r.List(ctx, &namespaces); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	existing := make(map[string]metav1.ObjectMeta, len(namespaces.Items))
	for i := range namespaces.Items {
		existing[namespaces.Items[i].Name] = namespaces.Items[i].ObjectMeta
	}
	var tenants authv1beta1.TenantList
	if err := r.List(ctx, &tenants, client.InNamespace(m.Namespace)); err != nil {
		return nil, fmt.Errorf("listing Tenants in namespace %s: %w", m.Namespace, err)
	}
	suspended := offload.Suspended(tenants.Items, consumer)
	claims, err := r.claims(ctx, m, existing)
	if err != nil {
		return nil, err
	}
	plan := offload.Enforce(m, existing, claims, r.policy())
	for _, name := range plan.Delete {
		if err := r.deleteNamespace(ctx, m, name); err != nil {
			return nil, err
		}
		ctrl.LoggerFrom(ctx).Info("Deleted a remote namespace that is no longer requested", "remoteNamespace", name, "clusterID", consumer)
	}
	var failed error
	for _, pair := range plan.Ensure { // a failure must not block the other namespaces
		meta, there := existing[pair.Remote]
		made, err := r.ensureNamespace(ctx, m, pair, consumer, meta, there, suspended)
		failed = errors.Join(failed, err)
		if !made && (err == nil || !there) {
			plan.Report(pair)
		}
	}
	// The limits hold in retained namespaces too: the consumer still has rights there, and gets them again if it requests the namespace.
	for _, pair := range plan.Retained {
		err := errors.Join(r.ensureQuota(ctx, m, pair, consumer), r.ensureLimits(ctx, m, pair, consumer))
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			failed = errors.Join(failed, err)
		}
	}
	r.warnRetained(m, plan.Retained, consumer)
	m.Status.CurrentMapping, m.Status.ReleasedMapping = plan.Status, maps.Clone(m.Spec.ReleasedMapping)
	if len(plan.Status) == 0 {
		m.Status.CurrentMapping = nil
	}
	return &plan, failed
}

func (r *namespaceMaps) policy() offload.NamespacePolicy {
	return offload.NamespacePolicy{LiqoNamespace: r.LiqoNamespace, Chosen: r.ChosenNamespaces, Refused: r.RefusedNamespaces, Limit: r.NamespaceLimit}
}

// deleteNamespace deletes a remote namespace, with everything in it. It first reads the map, the namespace and its claims from the API server and plans again: the
// cache may be outdated, and the consumer may have requested the namespace again, or the administrator may have removed its mark. It returns a conflict, so that
// the pass is repeated, if the plan is another one now, or if the namespace changes before it is deleted.
func (r *namespaceMaps) deleteNamespace(ctx context.Context, m *offloadingv1beta1.NamespaceMap, name string) error {
	ns, live := &corev1.Namespace{}, &offloadingv1beta1.NamespaceMap{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: name}, ns); err != nil || !ns.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	outdated := apierrors.NewConflict(corev1.Resource("namespaces"), name, errors.New("the cache is outdated, and the namespace must not be deleted now"))
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(m), live); apierrors.IsNotFound(err) {
		return outdated
	} else if err != nil {
		return fmt.Errorf("reading NamespaceMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	existing := map[string]metav1.ObjectMeta{name: ns.ObjectMeta}
	claims, err := r.claims(ctx, live, existing)
	if err != nil {
		return err
	}
	if !slices.Contains(offload.Enforce(live, existing, claims, r.policy()).Delete, name) {
		return outdated
	}
	err = r.Delete(ctx, ns, client.Preconditions{UID: &ns.UID, ResourceVersion: &ns.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting namespace %s: %w", name, err)
	}
	return nil
}

// warnRetained emits an Event for each namespace that stays only because of its claims. The recorder merges the Events of repeated passes.
func (r *namespaceMaps) warnRetained(m *offloadingv1beta1.NamespaceMap, retained []offload.NamespacePair, consumer string) {
	for _, pair := range retained {
		r.events.Eventf(m, nil, corev1.EventTypeWarning, offloadingv1beta1.ReasonVolumesKept, "Enforce",
			"namespace %s stays: it has PersistentVolumeClaims (kubectl get pvc --namespace %[1]s), and cluster %s has not released it: its NamespaceMap was deleted, replaced, or "+
				"restored from a backup, or cluster %[2]s runs an earlier version of Liqo. Cluster %[2]s uses it again if it offloads namespace %s again. To end it, copy the data that is needed, and delete the claims and the namespace",
			pair.Remote, consumer, pair.Local)
	}
}

// claims reports, by name, which namespaces have claims. It reads only namespaces that the NamespaceMap created and no longer desires, or took over from
// another one. It reads from the API server, because the cache does not hold claims of users.
func (r *namespaceMaps) claims(ctx context.Context, m *offloadingv1beta1.NamespaceMap, existing map[string]metav1.ObjectMeta) (map[string]bool, error) {
	claims := map[string]bool{}
	for remote := range existing {
		meta := existing[remote]
		desired := m.DeletionTimestamp.IsZero() && m.Spec.DesiredMapping[meta.Annotations[offloadingv1beta1.AnnotationOriginalName]] == remote
		if offloadingv1beta1.NamespaceMapOf(&meta) != offload.MapKey(m) || desired && !offload.GrantedByAnother(m, &meta) {
			continue
		}
		var list corev1.PersistentVolumeClaimList
		if err := r.Live.List(ctx, &list, client.InNamespace(remote)); err != nil {
			return nil, fmt.Errorf("listing the claims in namespace %s: %w", remote, err)
		}
		claims[remote] = len(kube.HeldClaims(list.Items)) > 0
	}
	return claims, nil
}

// ensureNamespace creates or updates one remote namespace, its limits and the consumer's RoleBinding there. It returns false if the namespace can't
// be created. A suspended consumer gets no RoleBinding and no new namespace, but keeps the namespaces that it has.
func (r *namespaceMaps) ensureNamespace(
	ctx context.Context, m *offloadingv1beta1.NamespaceMap, pair offload.NamespacePair, consumer string, meta metav1.ObjectMeta, there, suspended bool,
) (bool, error) {
	if suspended && !there {
		return false, nil
	}
	ns := &corev1.Namespace{ObjectMeta: *meta.DeepCopy()}
	ns.Name = pair.Remote
	before := ns.DeepCopy()
	offload.MarkNamespace(&ns.ObjectMeta, m, consumer, pair)
	ns.Labels, ns.Annotations = api.Layered(ns.Labels, r.GlobalLabels), api.Layered(ns.Annotations, r.GlobalAnnotations)
	if !there {
		err := r.Create(ctx, ns)
		switch {
		case apierrors.IsAlreadyExists(err), apierrors.IsInvalid(err):
			return false, nil // if the existing namespace is ours or is deleted, the watch reports it
		case err != nil:
			return false, fmt.Errorf("creating namespace %s: %w", pair.Remote, err)
		}
		ctrl.LoggerFrom(ctx).Info("Created a remote namespace", "remoteNamespace", pair.Remote, "clusterID", consumer, "originalName", pair.Local)
	} else if !sameMarks(before, ns) {
		if err := r.Patch(ctx, ns, client.MergeFrom(before)); err != nil {
			return false, fmt.Errorf("marking namespace %s: %w", pair.Remote, err)
		}
	}
	// The limits are there before the consumer can create anything.
	if err := errors.Join(r.ensureQuota(ctx, m, pair, consumer), r.ensureLimits(ctx, m, pair, consumer)); err != nil {
		return false, err
	}
	// The RoleBinding has the name of the tenant namespace, as documented.
	rights := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: pair.Remote, Name: m.Namespace}}
	if suspended {
		return true, r.deleteIfExists(ctx, rights)
	}
	err := client.IgnoreAlreadyExists(r.ensure(ctx, r.Client, m, rights, consumer, func() { rights.RoleRef, rights.Subjects = offload.RemoteNamespaceRights(consumer) }))
	return err == nil, err
}

// ensure creates or updates an object of a remote namespace. fill sets its fields, apart from the labels and the annotation that all these objects have. The
// error is AlreadyExists if the object was created a moment ago and the cache does not have it yet.
func (r *namespaceMaps) ensure(ctx context.Context, c client.Client, m *offloadingv1beta1.NamespaceMap, obj client.Object, consumer string, fill func()) error {
	_, err := kube.Ensure(ctx, c, obj, func() error {
		kube.AddLabels(obj, offload.RuntimeLabels(r.GlobalLabels, consumer))
		kube.AddAnnotations(obj, map[string]string{offloadingv1beta1.AnnotationManagedByNamespaceMap: offload.MapKey(m)})
		fill()
		return nil
	})
	return err
}

// deleteIfExists deletes an object if it exists.
func (r *namespaceMaps) deleteIfExists(ctx context.Context, obj client.Object) error {
	if err := r.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		return client.IgnoreNotFound(err)
	}
	return kube.Delete(ctx, r.Client, obj)
}

// mapsAffected returns the NamespaceMaps that a namespace affects: the one that created it, and all that request its name.
func (r *namespaceMaps) mapsAffected(ctx context.Context, ns client.Object) []reconcile.Request {
	return kube.Matching(ctx, r, &offloadingv1beta1.NamespaceMapList{}, func(m *offloadingv1beta1.NamespaceMap) bool {
		wants := offloadingv1beta1.NamespaceMapOf(ns) == offload.MapKey(m)
		for _, remote := range m.Spec.DesiredMapping {
			wants = wants || remote == ns.GetName()
		}
		return wants
	}, client.MatchingLabels{api.LabelReplicated: api.True})
}

// mapsIn returns the NamespaceMaps in the namespace of a Tenant.
func (r *namespaceMaps) mapsIn(ctx context.Context, tenant client.Object) []reconcile.Request {
	return kube.Requests(ctx, r, &offloadingv1beta1.NamespaceMapList{}, client.InNamespace(tenant.GetNamespace()), client.MatchingLabels{api.LabelReplicated: api.True})
}

// mapOf returns the NamespaceMap for which a RoleBinding, ResourceQuota or LimitRange was created.
func mapOf(_ context.Context, made client.Object) []reconcile.Request {
	namespace, name, ok := strings.Cut(made.GetAnnotations()[offloadingv1beta1.AnnotationManagedByNamespaceMap], "/")
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
}

func sameMarks(a, b client.Object) bool {
	return maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}
