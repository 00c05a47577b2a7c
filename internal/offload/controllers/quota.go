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
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// +kubebuilder:rbac:groups=offloading.liqo.io,resources=quotas,verbs=get;list;watch
// +kubebuilder:rbac:groups=node.k8s.io,resources=runtimeclasses,verbs=get;list;watch

// openLimit is after which time somebody looks what became of a Pod that was asked for and that the cache has not heard of.
const openLimit = 10 * time.Second

// reasonQuota is why a ShadowPod has no Pod while the Quota of its creator is full, or there is none.
const reasonQuota = "QuotaExceeded"

// errNoQuota tells that nothing is granted to a user.
var errNoQuota = errors.New("no Quota is for its creator: it is made when the resources of a ResourceSlice are accepted")

// quotas sees to it that nobody gets more Pods than granted. Admission has refused what was too much already, by what it knew; here, where one
// process makes all the Pods, it is counted exactly: what the cache has from a complete list, and what was written since. A ShadowPod for which
// there is no room waits here until there is.
type quotas struct {
	client.Client
	live   client.Reader
	events events.EventRecorder
	now    func() time.Time
	// synced tells that the ledger has heard of all Pods that there were.
	synced func() bool

	mu     sync.Mutex
	ledger *offload.Ledger
	// held are the ShadowPods that wait for room, with their creators.
	held  map[types.NamespacedName]string
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func newQuotas(mgr ctrl.Manager, recorder events.EventRecorder, now func() time.Time) (*quotas, error) {
	q := &quotas{
		Client: mgr.GetClient(), live: mgr.GetAPIReader(), events: recorder, now: now,
		ledger: offload.NewLedger(), held: map[types.NamespacedName]string{},
	}
	pods, err := mgr.GetCache().GetInformer(context.Background(), &corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	news, err := pods.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: q.see, UpdateFunc: func(_, pod any) { q.see(pod) }, DeleteFunc: q.miss,
	})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	q.synced = news.HasSynced
	return q, nil
}

// start is told where to put the ShadowPods that may try again, and looks after those of which nothing more was heard.
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
				for _, key := range q.ledger.Open(q.now().Add(-openLimit)) {
					queue.Add(reconcile.Request{NamespacedName: key})
				}
				q.mu.Unlock()
			}
		}
	}()
	return nil
}

func (q *quotas) see(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	var usage corev1.ResourceList
	if !offload.Finished(pod.Status.Phase) {
		usage = offload.Usage(&pod.Spec, nil)
	}
	creator := q.creator(pod)
	q.account(func() string { return q.ledger.See(client.ObjectKeyFromObject(pod), pod.UID, creator, usage) })
}

// creator returns on whose account a Pod is: on that of the creator of its ShadowPod, which admission wrote and nobody changes. Labels of the Pod itself may be changed
// by whoever may change Pods here; they count only once the ShadowPod is gone, where the account does not know the Pod either.
func (q *quotas) creator(pod *corev1.Pod) string {
	key, sp := client.ObjectKeyFromObject(pod), &offloadingv1beta1.ShadowPod{}
	if !offload.OfShadowPod(pod) {
		return ""
	}
	// The cache answers, in no time.
	if err := q.Get(context.Background(), key, sp, client.UnsafeDisableDeepCopy); err == nil && offload.OwnedBy(pod, sp) {
		return sp.Labels[offloadingv1beta1.LabelCreatorUser]
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if user := q.ledger.User(key, pod.UID); user != "" {
		return user
	}
	return pod.Labels[offloadingv1beta1.LabelCreatorUser]
}

func (q *quotas) miss(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		q.account(func() string { return q.ledger.Miss(client.ObjectKeyFromObject(pod), pod.UID) })
	}
}

// account changes the ledger, and lets those try again who may have room now.
func (q *quotas) account(change func() string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake(change())
}

// wake lets the ShadowPods of a creator who has more room try again.
func (q *quotas) wake(creator string) {
	for key, user := range q.held {
		if user == creator && creator != "" && q.queue != nil {
			q.queue.Add(reconcile.Request{NamespacedName: key})
		}
	}
}

// changed returns the ShadowPods that wait for a Quota that changed.
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

// room puts the Pod of a ShadowPod on the account before it is made, or tells what it waits for.
func (q *quotas) room(ctx context.Context, sp *offloadingv1beta1.ShadowPod) error {
	if q == nil {
		return nil
	}
	key := client.ObjectKeyFromObject(sp)
	if err := q.settle(ctx, key); err != nil {
		return err
	}
	if q.writing(key) || !q.synced() {
		return kube.WaitFor(staleDelay, "Stale", "the cache has not heard of pod %s yet", key)
	}
	overhead, err := overheadOf(ctx, q.Client, &sp.Spec.Pod)
	if err != nil {
		return err
	}
	usage := offload.Usage(&sp.Spec.Pod, overhead)
	return q.take(ctx, sp, usage, usage)
}

// grow puts a Pod that is about to be resized on the account with the more of both, or tells what it waits for. What it needs less of is free when
// the cache sees it.
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

// verdict is why a resize that has no room is pending: infeasible if it never will have, whatever else goes.
func (q *quotas) verdict(ctx context.Context, sp *offloadingv1beta1.ShadowPod, after *corev1.PodSpec) string {
	var list offloadingv1beta1.QuotaList
	if err := q.List(ctx, &list, client.UnsafeDisableDeepCopy); err == nil {
		for _, quota := range offload.QuotasOf(list.Items, sp.Labels[offloadingv1beta1.LabelCreatorUser]) {
			spec := quota.Spec.DeepCopy()
			spec.Cordoned = nil // it may end
			if offload.Exceeded(spec, nil, offload.Usage(after, nil)) != nil {
				return corev1.PodReasonInfeasible
			}
		}
	}
	return corev1.PodReasonDeferred
}

// grown takes note of what the API server said to the resize of grow: one that it refused takes nothing more. Of one that it did the cache tells.
func (q *quotas) grown(sp *offloadingv1beta1.ShadowPod, err error) {
	if q != nil && refusedByServer(err) {
		q.account(func() string { return q.ledger.Failed(client.ObjectKeyFromObject(sp)) })
	}
}

// content takes a ShadowPod that wants nothing more off the list of those that wait.
func (q *quotas) content(key types.NamespacedName) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.held, key)
}

// take puts what the Pod of a ShadowPod will take on the account, if there is room for what it wants more of.
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
		q.wake(q.ledger.Begin(key, creator, usage, q.now()))
		return nil
	}
	if _, told := q.held[key]; !told {
		q.events.Eventf(sp, nil, corev1.EventTypeWarning, reasonQuota, "Create", "the pod waits: %v", refused)
	}
	q.held[key] = creator
	return kube.Wait(reasonQuota, "pod %s waits: %v", key, refused)
}

// refusal tells why a pod has no room, nil when it has. The Quotas are read under the lock: who changes one later finds this ShadowPod among
// those held.
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
		if err := offload.Exceeded(&quota.Spec, q.ledger.Used(creator, key), usage); err != nil {
			return fmt.Errorf("quota %s/%s: %w", quota.Namespace, quota.Name, err), nil
		}
	}
	return nil, nil
}

// answered takes note of what the API server said to the Pod of room. After some errors nobody knows: settle finds out.
func (q *quotas) answered(pod *corev1.Pod, err error) {
	switch {
	case q == nil:
	case err == nil:
		q.account(func() string { return q.ledger.Made(client.ObjectKeyFromObject(pod), pod.UID) })
	case refusedByServer(err):
		q.account(func() string { return q.ledger.Failed(client.ObjectKeyFromObject(pod)) })
	}
}

// close takes a ShadowPod that is gone off the list of those that wait, and finds out what became of its Pod; also if long nothing was heard of it.
func (q *quotas) close(ctx context.Context, key types.NamespacedName) error {
	if q == nil || !q.known(key) {
		return nil
	}
	found, err := exists(ctx, q.Client, &offloadingv1beta1.ShadowPod{}, key)
	if err != nil || found && !q.old(key) {
		return err
	}
	q.mu.Lock()
	delete(q.held, key)
	q.mu.Unlock()
	return q.settle(ctx, key)
}

// old tells whether nothing was heard for long of what was written about a Pod.
func (q *quotas) old(key types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Contains(q.ledger.Open(q.now().Add(-openLimit)), key)
}

// known tells whether anything is open about a ShadowPod.
func (q *quotas) known(key types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, held := q.held[key]
	return held || q.ledger.Writing(key)
}

// settle finds out what became of a Pod that was asked for and that the cache has not heard of.
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
			return q.ledger.Failed(key)
		}
		return q.ledger.Made(key, pod.UID)
	})
	return nil
}

func (q *quotas) writing(key types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ledger.Writing(key)
}

// refusedByServer tells whether an error is an answer of the API server that says that nothing was written. After others nobody knows.
func refusedByServer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest && status.Status().Code < http.StatusInternalServerError
}

// overheadOf returns what the RuntimeClass of a pod takes beside its containers.
func overheadOf(ctx context.Context, c client.Reader, spec *corev1.PodSpec) (corev1.ResourceList, error) {
	if spec.RuntimeClassName == nil || *spec.RuntimeClassName == "" {
		return nil, nil
	}
	class := &nodev1.RuntimeClass{}
	found, err := exists(ctx, c, class, client.ObjectKey{Name: *spec.RuntimeClassName})
	if err != nil || !found || class.Overhead == nil {
		return nil, err
	}
	return class.Overhead.PodFixed, nil
}
