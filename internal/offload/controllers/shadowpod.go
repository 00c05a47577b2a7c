package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/internal/reasons"
)

// foreignRetry is the interval for checking whether a foreign Pod still occupies the name of a ShadowPod. Such Pods are not watched.
const foreignRetry = 30 * time.Second

// endRetry is the requeue delay of a ShadowPod that no longer needs a Pod, while the cache does not show this yet. Usually an event requeues it much
// earlier.
const endRetry = 30 * time.Second

// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowpods,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowpods/status,verbs=patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowpods/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// shadowPods maintains, on the provider, the Pod of every ShadowPod. Overhead: one write per created Pod, and one when the Pod has finished.
type shadowPods struct {
	client.Client
	// live reads without the cache, which holds only Pods of ShadowPods.
	live   client.Reader
	events events.EventRecorder
	now    func() metav1.Time
	// addresses is nil if addresses are not translated.
	addresses Addresses
	// metadata defines the annotations and labels that Pods of consumers may have.
	metadata offload.PodMetadata
	// runtimeClass is the RuntimeClass by which pods request a virtual node.
	runtimeClass string
	// quotas is nil if quotas are not enforced.
	quotas *quotas
	kind   reconcile.Reconciler
	// had holds, by name, the UID of the ShadowPod for which a Pod was created or requested. Only reconciliations of that name access the entry.
	had sync.Map
	// ended holds, by name, the last state of a Pod that had finished before its deletion, until the ShadowPod has recorded it. The events of the end
	// and of the deletion often arrive together.
	ended sync.Map
}

func setupShadowPod(mgr ctrl.Manager, opts Options) error {
	r := &shadowPods{Client: mgr.GetClient(), live: mgr.GetAPIReader(), events: kube.EventRecorder(mgr, "shadowpod"), now: opts.now, addresses: opts.Addresses, metadata: opts.PodMetadata, runtimeClass: opts.RuntimeClass}
	r.kind = &kube.Reconciler[*offloadingv1beta1.ShadowPod]{Name: "shadowpod", Client: mgr.GetClient(), Sync: r.sync}
	pods := kube.NewController(mgr, "shadowpod", controller.Options{
		MaxConcurrentReconciles: opts.ShadowPodWorkers,
		// The delays are short: a pod rejected by a ResourceQuota is retried soon after resources become free.
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, foreignRetry),
	})
	if opts.EnforceQuotas {
		var err error
		if r.quotas, err = newQuotas(mgr, r.events, opts.Now); err != nil {
			return err
		}
		pods.Watches(&offloadingv1beta1.Quota{}, handler.EnqueueRequestsFromMapFunc(r.quotas.changed), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
			WatchesRawSource(source.Func(r.quotas.start))
	}
	if opts.Metrics != nil {
		if err := opts.Metrics.Register(QuotaMetrics(mgr.GetClient(), r.quotas.used, mgr.GetLogger().WithName("metrics"))); err != nil {
			return fmt.Errorf("registering the metrics of quotas: %w", err)
		}
	}
	return pods.For(&offloadingv1beta1.ShadowPod{}, builder.WithPredicates(predicate.Or(
		predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&corev1.Pod{}, builder.WithPredicates(podChanged, predicate.Funcs{DeleteFunc: r.keepEnd})).
		Complete(r)
}

// Reconcile handles one ShadowPod by a kube.Reconciler. Before, it settles the quota tracker and drops the state in memory of a deleted one.
func (r *shadowPods) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if err := r.quotas.close(ctx, req.NamespacedName); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.forget(ctx, req.NamespacedName); err != nil {
		return reconcile.Result{}, err
	}
	return r.kind.Reconcile(ctx, req)
}

// forget drops the state in memory of a deleted ShadowPod. The final event of its Pod may arrive after that of the ShadowPod.
func (r *shadowPods) forget(ctx context.Context, key types.NamespacedName) error {
	_, had := r.had.Load(key)
	_, ended := r.ended.Load(key)
	if !had && !ended {
		return nil
	}
	there, err := exists(ctx, r.Client, &offloadingv1beta1.ShadowPod{}, key)
	if err == nil && !there {
		r.had.Delete(key)
		r.ended.Delete(key)
	}
	return err
}

// podChanged ignores updates of a Pod without consequences, which are most of the kubelet's status updates.
var podChanged = kube.Updates(func(before, after *corev1.Pod) bool {
	return before.UID != after.UID || before.Status.Phase != after.Status.Phase ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) ||
		!slices.Equal(before.Status.Conditions, after.Status.Conditions)
})

// keepEnd records the last state of a finished Pod that was deleted.
func (r *shadowPods) keepEnd(e event.DeleteEvent) bool {
	if pod, ok := e.Object.(*corev1.Pod); ok && api.PodFinished(pod) && offload.OfShadowPod(pod) {
		r.ended.Store(client.ObjectKeyFromObject(pod), pod)
	}
	return true
}

func (r *shadowPods) sync(ctx context.Context, sp *offloadingv1beta1.ShadowPod) error {
	pod := &corev1.Pod{}
	found, err := exists(ctx, r.Client, pod, client.ObjectKeyFromObject(sp))
	if err != nil {
		return err
	}
	if !found {
		pod = nil
		if last, ok := r.ended.Load(client.ObjectKeyFromObject(sp)); ok && offload.OwnedBy(last.(*corev1.Pod), sp) {
			pod = last.(*corev1.Pod)
			if _, phase := offload.Shadow(sp, pod, r.metadata); !api.PhaseFinal(phase) {
				pod = nil // the Pod is recreated
			}
		}
	} else if r.ended.Delete(client.ObjectKeyFromObject(sp)); offload.OwnedBy(pod, sp) {
		r.had.Store(client.ObjectKeyFromObject(sp), sp.UID)
	}
	if api.PhaseFinal(sp.Status.Phase) {
		r.ended.Delete(client.ObjectKeyFromObject(sp))
	}
	action, phase := offload.Shadow(sp, pod, r.metadata)
	if pod != nil && api.PhaseFinal(phase) && !api.PhaseFinal(sp.Status.Phase) {
		sp.Status.Pod = podrules.End(pod)
	} else if action != offload.PodChange && !api.PhaseFinal(phase) {
		sp.Status.Pod = nil // drop the condition of a resize that was pending and has been reverted
	}
	sp.Status.Phase = phase
	switch action {
	case offload.PodCreate:
		return r.create(ctx, sp)
	case offload.PodRelabel:
		return r.relabel(ctx, sp, pod)
	case offload.PodChange:
		return r.change(ctx, sp)
	case offload.PodGates:
		return r.gates(ctx, sp, pod)
	case offload.PodEnd:
		seconds, _ := offload.PodGrace(sp)
		return kube.Delete(ctx, r.Client, pod, client.GracePeriodSeconds(seconds))
	case offload.PodDelete:
		return kube.Delete(ctx, r.Client, pod)
	}
	if pod != nil && offload.OwnedBy(pod, sp) {
		r.quotas.stopWaiting(client.ObjectKeyFromObject(sp)) // the ShadowPod may still wait for the room of a resize that has been reverted
	}
	if pod != nil && !offload.OwnedBy(pod, sp) && sp.DeletionTimestamp.IsZero() && !api.PhaseFinal(phase) {
		// Anybody can set our label on a Pod, and the deletion of such a Pod triggers no reconciliation.
		return kube.WaitFor(foreignRetry, reasons.NameTaken, "pod %s/%s exists and does not belong to this ShadowPod", sp.Namespace, sp.Name)
	}
	return nil
}

// create creates the Pod. If the name is taken, it reads the existing Pod. A Pod of this or an earlier ShadowPod only means that the cache lags
// behind. Any other Pod is foreign and stays untouched.
func (r *shadowPods) create(ctx context.Context, sp *offloadingv1beta1.ShadowPod) error {
	if err := r.checkRecreation(ctx, sp); err != nil {
		return err
	}
	pod := offload.Pod(sp, r.metadata)
	if err := r.keepLocal(ctx, pod); err != nil {
		return err
	}
	if err := r.setOriginAPIServer(ctx, sp, pod); err != nil {
		return err
	}
	if err := r.quotas.room(ctx, sp); err != nil {
		return err
	}
	r.had.Store(client.ObjectKeyFromObject(sp), sp.UID)
	err := r.Create(ctx, pod, client.FieldOwner(fieldOwner))
	r.quotas.answered(pod, err)
	switch {
	case err == nil:
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return kube.Wait(reasons.NamespaceTerminating, "namespace %s is being deleted", sp.Namespace)
	case !apierrors.IsAlreadyExists(err):
		r.events.Eventf(sp, nil, corev1.EventTypeWarning, reasons.FailedCreatePod, "Create", "failed to create the pod: %v", err)
		return fmt.Errorf("creating pod %s/%s: %w", sp.Namespace, sp.Name, err)
	}
	taken := &corev1.Pod{}
	there, err := exists(ctx, r.live, taken, client.ObjectKeyFromObject(sp))
	switch {
	case err != nil:
		return err
	case !there:
		return kube.WaitFor(staleDelay, reasons.WaitingForCache, "pod %s/%s was deleted while it was read", sp.Namespace, sp.Name)
	case taken.Labels[offloadingv1beta1.LabelManagedBy] == offloadingv1beta1.ManagedByShadowPod:
		return kube.WaitFor(staleDelay, reasons.WaitingForCache, "waiting for the cache to have pod %s/%s", sp.Namespace, sp.Name)
	}
	r.events.Eventf(sp, taken, corev1.EventTypeWarning, reasons.FailedCreatePod, "Create",
		"a pod of this name exists and does not belong to Liqo; it is left alone, and the pod is created once the name is free")
	return kube.WaitFor(foreignRetry, reasons.NameTaken, "pod %s/%s exists and does not belong to Liqo", sp.Namespace, sp.Name)
}

// keepLocal keeps a Pod to be created off the virtual nodes of this cluster if it tolerates everything and its namespace is not offloaded further. A webhook
// does the same for other pods. The API server does not evaluate its conditions for Pods of ShadowPods. In an offloaded namespace, the strategy of the
// namespace decides.
func (r *shadowPods) keepLocal(ctx context.Context, pod *corev1.Pod) error {
	namespace := &corev1.Namespace{}
	if _, err := exists(ctx, r.Client, namespace, client.ObjectKey{Name: pod.Namespace}); err != nil {
		return err
	}
	if namespace.Labels[offloadingv1beta1.LabelSchedulingEnabled] != api.True {
		offload.KeepLocal(pod, r.runtimeClass)
	}
	return nil
}

// checkRecreation returns a wait error if the Pod of a ShadowPod must not be recreated. Usually a Pod is gone because its ShadowPod is deleted, and
// either of the two deletion events may arrive first. A recreated Pod would then run until garbage collection deletes it. So checkRecreation reads
// the ShadowPod from the API server. The first Pod of a ShadowPod needs no such read.
func (r *shadowPods) checkRecreation(ctx context.Context, sp *offloadingv1beta1.ShadowPod) error {
	key := client.ObjectKeyFromObject(sp)
	if uid, _ := r.had.Load(key); uid != sp.UID {
		return nil
	}
	now := &offloadingv1beta1.ShadowPod{}
	if _, err := exists(ctx, r.live, now, key); err != nil {
		return err
	}
	if action, _ := offload.Shadow(now, nil, r.metadata); now.UID != sp.UID || action != offload.PodCreate {
		return kube.WaitFor(endRetry, reasons.WaitingForCache, "waiting for the cache to show that ShadowPod %s needs no pod any more", key)
	}
	return nil
}

func (r *shadowPods) relabel(ctx context.Context, sp *offloadingv1beta1.ShadowPod, pod *corev1.Pod) error {
	before := pod.DeepCopy()
	pod = pod.DeepCopy()
	pod.Labels, pod.Annotations = offload.Relabelled(sp, pod, r.metadata)
	if err := r.Patch(ctx, pod, client.MergeFrom(before), client.FieldOwner(fieldOwner)); client.IgnoreNotFound(err) != nil {
		r.events.Eventf(sp, pod, corev1.EventTypeWarning, reasons.FailedUpdatePod, "Update", "failed to update labels and annotations of the pod: %v", err)
		return fmt.Errorf("updating labels and annotations of pod %s/%s: %w", sp.Namespace, sp.Name, err)
	}
	return nil
}
