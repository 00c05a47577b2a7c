package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch

// ConsumerSecrets creates the cache for Options.ConsumerSecrets and adds it to the manager. It selects by the label of the origin, which policy
// liqo-copies requires of every Secret that a consumer creates or changes.
func ConsumerSecrets(mgr ctrl.Manager) (cache.Cache, error) {
	return kube.NewCache(mgr, "Secrets of consumers", map[client.Object]cache.ByObject{
		secretMetadata(): {Label: kube.Selecting(api.LabelOrigin, selection.Exists), Transform: kube.Reduced(stripMetadata)},
	})
}

// secretMetadata returns an object that selects the metadata of Secrets in a cache.
func secretMetadata() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
}

func stripMetadata(o *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: o.TypeMeta, ObjectMeta: kube.Identity(&o.ObjectMeta)}
}

// countsPatience is how long the start of the controllers waits for the counts. Initial lists take less, unless there are very many objects.
const countsPatience = 5 * time.Second

// objectCounts counts the ShadowPods and Secrets in each namespace, so that the API server need not count them while they are few. Each event costs two
// look-ups in maps. Only an event that changes the rows of a ResourceQuota leads to a reconciliation, of this ResourceQuota.
type objectCounts struct {
	// synced has, for each row that is counted here, a function that reports whether all objects of the initial list are counted.
	synced map[corev1.ResourceName]toolscache.InformerSynced
	// quotas reads the ResourceQuotas of the remote namespaces.
	quotas client.Reader
	// patience is how long controllers wait for the counts when they start.
	patience time.Duration

	mu      sync.Mutex
	tracker *offload.ObjectTracker
	// queue is nil until the controller of the ResourceQuotas starts, which then reconciles all of them.
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func newObjectCounts(mgr ctrl.Manager, opts *Options) (*objectCounts, error) {
	o := &objectCounts{
		synced: map[corev1.ResourceName]toolscache.InformerSynced{}, tracker: offload.NewObjectTracker(opts.NamespaceQuota), quotas: mgr.GetClient(), patience: countsPatience,
	}
	for _, row := range offload.Countable(opts.NamespaceQuota) {
		var err error
		switch {
		case row == offload.CountShadowPods:
			o.synced[row], err = followRow(o, mgr.GetCache(), &offloadingv1beta1.ShadowPod{}, row)
		case row == offload.CountSecrets && opts.ConsumerSecrets != nil:
			o.synced[row], err = followRow(o, opts.ConsumerSecrets, secretMetadata(), row)
		}
		if err != nil {
			return nil, err
		}
	}
	return o, nil
}

// followRow counts the objects of a kind for a row.
func followRow[T client.Object](o *objectCounts, in cache.Informers, kind T, row corev1.ResourceName) (synced func() bool, err error) {
	return kube.Follow(context.Background(), in, kind,
		func(object T) { o.change(row, client.ObjectKeyFromObject(object), (*offload.ObjectTracker).Observe) },
		func(object T) { o.change(row, client.ObjectKeyFromObject(object), (*offload.ObjectTracker).Forget) })
}

// change changes the tracker, and requests the reconciliation of the ResourceQuota if it needs other rows.
func (o *objectCounts) change(row corev1.ResourceName, key client.ObjectKey, record func(*offload.ObjectTracker, corev1.ResourceName, client.ObjectKey) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if record(o.tracker, row, key) && o.queue != nil {
		o.queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: key.Namespace, Name: offload.RemoteNamespaceQuota}})
	}
}

// hard returns the rows that the ResourceQuota of a namespace needs.
func (o *objectCounts) hard(namespace string, present corev1.ResourceList) corev1.ResourceList {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tracker.Hard(namespace, present, func(row corev1.ResourceName) bool { return o.synced[row] != nil && o.synced[row]() })
}

// Start receives the queue of the controller. A ResourceQuota that has a row for lack of the number is reconciled when all objects of the row are counted.
func (o *objectCounts) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = queue
	for row, synced := range o.synced {
		go func() {
			if toolscache.WaitForCacheSync(ctx.Done(), synced) {
				o.reconcileAll(ctx, row)
			}
		}()
	}
	return nil
}

// reconcileAll requests the reconciliation of all ResourceQuotas that have a row.
func (o *objectCounts) reconcileAll(ctx context.Context, row corev1.ResourceName) {
	var quotas corev1.ResourceQuotaList
	_ = o.quotas.List(ctx, &quotas) // a cache fails only at shutdown
	for i := range quotas.Items {
		if _, counted := quotas.Items[i].Spec.Hard[row]; counted && remoteQuota(&quotas.Items[i]) {
			o.queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&quotas.Items[i])})
		}
	}
}

// WaitForSync waits until all objects are counted, so that a restart does not add all rows and then remove most of them. It does not wait for long: meanwhile a
// ResourceQuota lacks the rows that it lacked before, however many objects there are.
func (o *objectCounts) WaitForSync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, o.patience)
	defer cancel()
	toolscache.WaitForCacheSync(ctx.Done(), slices.Collect(maps.Values(o.synced))...)
	return nil
}

// ready is a source without events. It delays a controller that reads the counts until they are complete.
type ready struct{ *objectCounts }

// Start does nothing: the queue of another controller gets the events.
func (ready) Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}

// setupQuotas adds the controller of the ResourceQuotas in remote namespaces. Nothing that fails in the one of NamespaceMaps delays a row.
func (r *namespaceMaps) setupQuotas(mgr ctrl.Manager) error {
	var err error
	if r.objects, err = newObjectCounts(mgr, &r.Options); err != nil {
		return err
	}
	return kube.NewController(mgr, "namespacequota").
		For(&corev1.ResourceQuota{}, builder.WithPredicates(kube.Updates(otherQuota))).
		WatchesRawSource(r.objects).
		Complete(&kube.Reconciler[*corev1.ResourceQuota]{Name: "namespacequota", Client: mgr.GetClient(), Sync: r.syncQuota, Wanted: remoteQuota})
}

// remoteQuota reports whether a ResourceQuota is that of a remote namespace.
func remoteQuota(quota *corev1.ResourceQuota) bool {
	return quota.Name == offload.RemoteNamespaceQuota && quota.Annotations[offloadingv1beta1.AnnotationManagedByNamespaceMap] != ""
}

// syncQuota gives an existing quota the rows that it needs. The controller of NamespaceMaps creates and deletes it, and writes a usage that is missing.
func (r *namespaceMaps) syncQuota(ctx context.Context, quota *corev1.ResourceQuota) error {
	wanted := quota.DeepCopy()
	wanted.Spec = r.quotaSpec(quota)
	if len(r.NamespaceQuota) == 0 || equality.Semantic.DeepEqual(quota.Spec, wanted.Spec) {
		return nil
	}
	if err := r.Patch(ctx, wanted, client.MergeFrom(quota)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("changing the rows of ResourceQuota %s/%s: %w", quota.Namespace, quota.Name, err))
	}
	return r.countQuota(ctx, wanted)
}

// quotaSpec returns the spec that a quota needs.
func (r *namespaceMaps) quotaSpec(quota *corev1.ResourceQuota) corev1.ResourceQuotaSpec {
	if r.objects == nil {
		return corev1.ResourceQuotaSpec{Hard: r.NamespaceQuota.DeepCopy()}
	}
	return corev1.ResourceQuotaSpec{Hard: r.objects.hard(quota.Namespace, quota.Spec.Hard)}
}

// ensureQuota creates or updates the quota of one remote namespace, or deletes it if no quota is configured.
func (r *namespaceMaps) ensureQuota(ctx context.Context, m *offloadingv1beta1.NamespaceMap, pair offload.NamespacePair, consumer string) error {
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: pair.Remote, Name: offload.RemoteNamespaceQuota}}
	if len(r.NamespaceQuota) == 0 {
		return r.deleteIfExists(ctx, quota)
	}
	if err := r.ensureLimit(ctx, m, quota, consumer, func() { quota.Spec = r.quotaSpec(quota) }); err != nil {
		return err
	}
	return r.countQuota(ctx, quota)
}

// countQuota writes the usage of the kinds of Liqo into a quota that lacks it.
func (r *namespaceMaps) countQuota(ctx context.Context, quota *corev1.ResourceQuota) error {
	return kube.CountQuota(ctx, r.Client, quota, map[corev1.ResourceName]client.ObjectList{
		offload.CountShadowPods:                         &offloadingv1beta1.ShadowPodList{},
		"count/shadowendpointslices.offloading.liqo.io": &offloadingv1beta1.ShadowEndpointSliceList{},
	})
}

// otherQuota reports whether a quota's spec or metadata changed. Its status changes with every object in the namespace and is ignored.
func otherQuota(before, after *corev1.ResourceQuota) bool {
	return !sameMarks(before, after) || !equality.Semantic.DeepEqual(before.Spec, after.Spec)
}

// ensureLimits creates or updates the default limits of containers in one remote namespace, or deletes them if none are configured.
func (r *namespaceMaps) ensureLimits(ctx context.Context, m *offloadingv1beta1.NamespaceMap, pair offload.NamespacePair, consumer string) error {
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: pair.Remote, Name: offload.RemoteNamespaceQuota}}
	if len(r.DefaultLimits) == 0 {
		return r.deleteIfExists(ctx, limits)
	}
	return r.ensureLimit(ctx, m, limits, consumer, func() { limits.Spec = offload.DefaultLimits(r.DefaultLimits) })
}

// ensureLimit creates or updates an object that limits a remote namespace. An object of this NamespaceMap that exists although the cache lacks it was created a moment
// ago, or has lost the label by which the cache selects. It gets the label back. One of an administrator with the same name is left alone.
func (r *namespaceMaps) ensureLimit(ctx context.Context, m *offloadingv1beta1.NamespaceMap, obj client.Object, consumer string, fill func()) error {
	if err := r.ensure(ctx, r.Client, m, obj, consumer, fill); !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil || offloadingv1beta1.NamespaceMapOf(obj) != offload.MapKey(m) {
		return client.IgnoreNotFound(err)
	}
	return r.ensure(ctx, kube.Uncached{Client: r.Client, Reader: r.Live}, m, obj, consumer, fill)
}
