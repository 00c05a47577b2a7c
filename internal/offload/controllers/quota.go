package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=offloading.liqo.io,resources=quotas,verbs=get;list;watch
// +kubebuilder:rbac:groups=node.k8s.io,resources=runtimeclasses,verbs=get;list;watch

// openLimit is the time after which a created or resized Pod is re-read if no cache event confirmed it.
const openLimit = 10 * time.Second

// errNoQuota reports that a user has no Quota.
var errNoQuota = errors.New("its creator has no Quota: Liqo creates one when it accepts the resources of a ResourceSlice")

// quotas ensures that no user gets more Pods than granted. The admission webhook already rejects excess requests, but based on a cache that may lag.
// Here a single process creates all Pods, so the count is exact: the Pods in the cache after a complete list, plus our own writes since. A ShadowPod
// without room waits until there is room.
type quotas struct {
	client.Client
	live   client.Reader
	events events.EventRecorder
	now    func() time.Time
	// synced means that the tracker contains all Pods of the initial list.
	synced func() bool

	mu      sync.Mutex
	tracker *offload.UsageTracker
	// held are the ShadowPods that wait for room, each with the label value of its creator.
	held  map[types.NamespacedName]string
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func newQuotas(mgr ctrl.Manager, recorder events.EventRecorder, now func() time.Time) (*quotas, error) {
	q := &quotas{
		Client: mgr.GetClient(), live: mgr.GetAPIReader(), events: recorder, now: now,
		tracker: offload.NewUsageTracker(), held: map[types.NamespacedName]string{},
	}
	var err error
	q.synced, err = kube.Follow(context.Background(), mgr.GetCache(), &corev1.Pod{}, q.observe, q.forget)
	return q, err
}

// start receives the queue for ShadowPods to retry. It also requeues ShadowPods whose writes no cache event confirmed for openLimit.
func (q *quotas) start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	q.mu.Lock()
	q.queue = queue
	q.mu.Unlock()
	go func() {
		tick := time.NewTicker(openLimit)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				q.mu.Lock()
				for _, key := range q.tracker.Pending(q.now().Add(-openLimit)) {
					queue.Add(reconcile.Request{NamespacedName: key})
				}
				q.mu.Unlock()
			}
		}
	}()
	return nil
}

// observe records the usage of a Pod that was added to the cache or changed there.
func (q *quotas) observe(pod *corev1.Pod) {
	var usage corev1.ResourceList
	if !api.PodFinished(pod) {
		usage = offload.Usage(&pod.Spec, nil)
	}
	creator := q.creator(pod)
	q.account(func() string { return q.tracker.Observe(client.ObjectKeyFromObject(pod), pod.UID, creator, usage) })
}

// creator returns the user to whose Quota a Pod counts: the creator of its ShadowPod, which admission recorded and no user can change. The label of
// the Pod itself counts only if the ShadowPod no longer exists and the tracker does not know the Pod, because anyone who may change Pods can change
// this label.
func (q *quotas) creator(pod *corev1.Pod) string {
	key, sp := client.ObjectKeyFromObject(pod), &offloadingv1beta1.ShadowPod{}
	if !offload.OfShadowPod(pod) {
		return ""
	}
	// The cache responds immediately, so no timeout is necessary.
	if err := q.Get(context.Background(), key, sp, client.UnsafeDisableDeepCopy); err == nil && offload.OwnedBy(pod, sp) {
		return sp.Labels[offloadingv1beta1.LabelCreatorUser]
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if user := q.tracker.User(key, pod.UID); user != "" {
		return user
	}
	return pod.Labels[offloadingv1beta1.LabelCreatorUser]
}

// forget removes a deleted Pod from the tracker.
func (q *quotas) forget(pod *corev1.Pod) {
	q.account(func() string { return q.tracker.Forget(client.ObjectKeyFromObject(pod), pod.UID) })
}

// account changes the tracker and requeues the ShadowPods that may have room now.
func (q *quotas) account(change func() string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake(change())
}

// wake requeues the waiting ShadowPods of a creator whose usage decreased.
func (q *quotas) wake(creator string) {
	for key, user := range q.held {
		if user == creator && creator != "" && q.queue != nil {
			q.queue.Add(reconcile.Request{NamespacedName: key})
		}
	}
}

// changed returns the ShadowPods that wait for room in a changed Quota.
func (q *quotas) changed(_ context.Context, obj client.Object) []reconcile.Request {
	quota, ok := obj.(*offloadingv1beta1.Quota)
	if !ok {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var requests []reconcile.Request
	for key, creator := range q.held {
		if creator == offloadingv1beta1.CreatorLabel(quota.Spec.User) {
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
	}
	return requests
}

// room reserves the resources for the Pod of a ShadowPod before its creation. If there is no room, it returns a wait error with the reason.
func (q *quotas) room(ctx context.Context, sp *offloadingv1beta1.ShadowPod) error {
	if q == nil {
		return nil
	}
	key := client.ObjectKeyFromObject(sp)
	if err := q.settle(ctx, key); err != nil {
		return err
	}
	if q.writing(key) || !q.synced() {
		return kube.WaitFor(staleDelay, reasons.WaitingForCache, "waiting for the cache to have pod %s", key)
	}
	overhead, err := kube.PodOverhead(ctx, q.Client, &sp.Spec.Pod)
	if err != nil {
		return err
	}
	usage := offload.Usage(&sp.Spec.Pod, overhead)
	return q.take(ctx, sp, usage, usage)
}

// grow reserves, before the resize of a Pod, the greater of the old and the new amount of each resource. If there is no room, it returns a wait error
// with the reason. Resources that decrease become free only when the cache has the resized Pod.
func (q *quotas) grow(ctx context.Context, sp *offloadingv1beta1.ShadowPod, before, after *corev1.PodSpec) error {
	if q == nil {
		return nil
	}
	usage, wanted := offload.Usage(before, nil), offload.Usage(after, nil)
	more := offload.Growth(usage, wanted)
	if len(more) == 0 {
		return nil
	}
	maps.Copy(usage, more)
	return q.take(ctx, sp, more, usage)
}

// verdict returns the reason for the pending condition of a resize without room: Infeasible if even an otherwise unused Quota has no room for it.
func (q *quotas) verdict(ctx context.Context, sp *offloadingv1beta1.ShadowPod, after *corev1.PodSpec) string {
	var list offloadingv1beta1.QuotaList
	if err := q.List(ctx, &list, client.UnsafeDisableDeepCopy); err == nil {
		for _, quota := range offload.QuotasOf(list.Items, sp.Labels[offloadingv1beta1.LabelCreatorUser]) {
			spec := quota.Spec.DeepCopy()
			spec.Cordoned = nil // the cordon may end
			if offload.Exceeded(spec, nil, offload.Usage(after, nil)) != nil {
				return corev1.PodReasonInfeasible
			}
		}
	}
	return corev1.PodReasonDeferred
}

// recordResize records the response to a resize reserved by grow. A rejected resize releases its reservation; a successful one is confirmed by the
// cache.
func (q *quotas) recordResize(sp *offloadingv1beta1.ShadowPod, err error) {
	if q != nil && refusedByServer(err) {
		q.account(func() string { return q.tracker.Release(client.ObjectKeyFromObject(sp)) })
	}
}

// stopWaiting removes a ShadowPod from held: it no longer waits for room.
func (q *quotas) stopWaiting(key types.NamespacedName) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.held, key)
}

// take reserves usage for the Pod of a ShadowPod if there is room for more. Otherwise it adds the ShadowPod to held.
func (q *quotas) take(ctx context.Context, sp *offloadingv1beta1.ShadowPod, more, usage corev1.ResourceList) error {
	key, creator := client.ObjectKeyFromObject(sp), sp.Labels[offloadingv1beta1.LabelCreatorUser]
	q.mu.Lock()
	defer q.mu.Unlock()
	refused, err := q.refusal(ctx, key, creator, more)
	if err != nil {
		return err
	}
	if refused == nil {
		delete(q.held, key)
		q.wake(q.tracker.Reserve(key, creator, usage, q.now()))
		return nil
	}
	if _, reported := q.held[key]; !reported {
		q.events.Eventf(sp, nil, corev1.EventTypeWarning, reasons.QuotaExceeded, "Create", "the pod waits: %v", refused)
	}
	q.held[key] = creator
	return kube.Wait(reasons.QuotaExceeded, "pod %s waits: %v", key, refused)
}

// refusal returns why a pod has no room, nil if it has. The caller holds the lock while refusal reads the Quotas: if a Quota changes later, changed
// finds this ShadowPod in held.
func (q *quotas) refusal(ctx context.Context, key types.NamespacedName, creator string, usage corev1.ResourceList) (refused, err error) {
	var list offloadingv1beta1.QuotaList
	if err := q.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Quotas: %w", err)
	}
	found := offload.QuotasOf(list.Items, creator)
	if len(found) == 0 {
		return errNoQuota, nil
	}
	for _, quota := range found {
		if err := offload.Exceeded(&quota.Spec, q.tracker.Used(creator, key), usage); err != nil {
			return fmt.Errorf("quota %s/%s: %w", quota.Namespace, quota.Name, err), nil
		}
	}
	return nil, nil
}

// used returns the resources that the Pods of a creator use; nil while that is not known.
func (q *quotas) used(creator string) corev1.ResourceList {
	if q == nil || !q.synced() {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if used := q.tracker.Used(creator, types.NamespacedName{}); used != nil {
		return used.DeepCopy()
	}
	return corev1.ResourceList{}
}

// answered records the response to a Pod creation reserved by room. Some errors leave the result unknown; settle then reads it from the API server.
func (q *quotas) answered(pod *corev1.Pod, err error) {
	switch {
	case q == nil:
	case err == nil:
		q.account(func() string { return q.tracker.Confirm(client.ObjectKeyFromObject(pod), pod.UID) })
	case refusedByServer(err):
		q.account(func() string { return q.tracker.Release(client.ObjectKeyFromObject(pod)) })
	}
}

// close removes a deleted ShadowPod from held and settles its reservation. It also settles the reservation of an existing ShadowPod after openLimit.
func (q *quotas) close(ctx context.Context, key types.NamespacedName) error {
	if q == nil || !q.known(key) {
		return nil
	}
	found, err := exists(ctx, q.Client, &offloadingv1beta1.ShadowPod{}, key)
	if err != nil || found && !q.unconfirmed(key) {
		return err
	}
	q.mu.Lock()
	delete(q.held, key)
	q.mu.Unlock()
	return q.settle(ctx, key)
}

// unconfirmed reports whether a write of a Pod was not confirmed for openLimit.
func (q *quotas) unconfirmed(key types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Contains(q.tracker.Pending(q.now().Add(-openLimit)), key)
}

// known reports whether a ShadowPod waits for room or has a reservation.
func (q *quotas) known(key types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, held := q.held[key]
	return held || q.tracker.IsPending(key)
}

// settle reads from the API server whether a Pod exists whose creation the cache has not confirmed, and updates the tracker.
func (q *quotas) settle(ctx context.Context, key types.NamespacedName) error {
	if !q.writing(key) {
		return nil
	}
	pod := &corev1.Pod{}
	there, err := exists(ctx, q.live, pod, key)
	if err != nil {
		return err
	}
	q.account(func() string {
		if !there || pod.Labels[offloadingv1beta1.LabelManagedBy] != offloadingv1beta1.ManagedByShadowPod {
			return q.tracker.Release(key)
		}
		return q.tracker.Confirm(key, pod.UID)
	})
	return nil
}

func (q *quotas) writing(key types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tracker.IsPending(key)
}

// refusedByServer reports whether the API server rejected the request (status 4xx), so that nothing was written. After other errors that is unknown.
func refusedByServer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest && status.Status().Code < http.StatusInternalServerError
}
