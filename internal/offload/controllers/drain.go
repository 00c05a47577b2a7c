package controllers

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// evictionRetry is the delay before retrying an eviction that failed, usually because of a disruption budget: budgets are not watched.
const evictionRetry = 3 * time.Second

// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch;delete
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create

// drains removes the pods of virtual nodes. These pods are not cached: a drain lists them at its start and watches them until its end.
type drains struct {
	client client.WithWatch
	// done receives the VirtualNode to reconcile when its node has no pods left, has new ones, or when the watch ended.
	done chan event.GenericEvent

	mu      sync.Mutex
	watched map[types.NamespacedName]bool
}

func newDrains(c client.WithWatch) *drains {
	return &drains{client: c, done: make(chan event.GenericEvent, 1), watched: map[types.NamespacedName]bool{}}
}

// drain evicts the pods of the VirtualNode's node and returns nil when none is left. Until then it returns a wait error that names the remaining pods, and
// sends the VirtualNode to done later. The drain started at since. It deletes pods by force when they exceed their time limit. If a pod remains even after
// that, drain returns it in stuck and no longer waits for it.
func (d *drains) drain(ctx context.Context, node *offloadingv1beta1.VirtualNode, unreachable bool, since, now time.Time) (stuck []string, err error) {
	var list corev1.PodList
	if err := d.client.List(ctx, &list, onNode(node.Name)); err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", node.Name, err)
	}
	left := map[types.UID]bool{}
	// Drain all pods. DaemonSet pods are included because a policy of the chart prevents their recreation. Finished pods are included because only a
	// running virtual kubelet deletes their remains in the provider.
	pods := list.Items
	for i := range pods {
		left[pods[i].UID] = true
	}
	if len(pods) == 0 {
		return nil, nil
	}
	limit := since.Add(offload.DrainLimit(pods, unreachable))
	end := limit.Add(offload.DrainEnd)
	force := !now.Before(limit)
	again, what := limit.Sub(now), fmt.Sprintf("they are deleted by force at %s", limit.UTC().Format(time.RFC3339))
	if force {
		again, what = evictionRetry, fmt.Sprintf("the deletion continues without them at %s", end.UTC().Format(time.RFC3339))
	}
	for i := range pods {
		pod := &pods[i]
		err := d.expel(ctx, pod, force)
		why := ""
		switch {
		case apierrors.IsTooManyRequests(err):
			why = "a disruption budget refuses the eviction"
			again = min(again, evictionRetry)
		case err != nil:
			why = err.Error()
			again = min(again, evictionRetry)
		case len(pod.Finalizers) > 0:
			why = "held by finalizers " + strings.Join(pod.Finalizers, ", ")
		default:
			why = "terminating"
		}
		stuck = append(stuck, fmt.Sprintf("%s/%s (%s)", pod.Namespace, pod.Name, why))
	}
	if !now.Before(end) {
		return stuck, nil
	}
	d.follow(ctx, node, list.ResourceVersion, left)
	return nil, kube.WaitFor(again, string(offloadingv1beta1.VirtualNodeDraining), "waiting for %d pods to terminate, %s: %s",
		len(pods), what, shown(stuck))
}

// drainShown is the maximum number of pods that a message lists by name.
const drainShown = 3

// shown joins the first drainShown names.
func shown(names []string) string {
	if len(names) <= drainShown {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:drainShown], ", ") + ", ..."
}

// expel removes one pod: by eviction, which respects disruption budgets, or with force by immediate deletion.
func (d *drains) expel(ctx context.Context, pod *corev1.Pod, force bool) error {
	if force {
		return kube.Delete(ctx, d.client, pod, client.GracePeriodSeconds(0))
	}
	if !pod.DeletionTimestamp.IsZero() {
		return nil
	}
	uid := pod.UID
	eviction := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}}
	err := d.client.SubResource("eviction").Create(ctx, pod, eviction)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // deleted, or replaced by another pod of its name
		return nil
	}
	if err != nil {
		return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// follow watches the pods of a node, starting at the resource version from. It sends the VirtualNode to done when all pods in left are gone, when a
// new pod appears, or when the watch ends. There is at most one watch per node.
func (d *drains) follow(ctx context.Context, node *offloadingv1beta1.VirtualNode, from string, left map[types.UID]bool) {
	key := client.ObjectKeyFromObject(node)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watched[key] {
		return
	}
	// The watch outlives this reconciliation.
	ctx = context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	options := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: from}}
	onNode(node.Name).ApplyToList(options)
	pods, err := d.client.Watch(ctx, &corev1.PodList{}, options)
	if err != nil { // no watch necessary: the time limit of the drain requeues the node as well
		cancel()
		return
	}
	d.watched[key] = true
	subject := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: node.Namespace, Name: node.Name}}
	go func() {
		defer cancel()
		defer pods.Stop()
		for e := range pods.ResultChan() {
			if emptied(e, left) {
				break
			}
		}
		d.mu.Lock()
		delete(d.watched, key)
		d.mu.Unlock()
		select {
		case d.done <- event.GenericEvent{Object: subject}:
		case <-ctx.Done():
		}
	}()
}

// watchTimeout limits a watch; a longer drain starts another one.
const watchTimeout = 10 * time.Minute

// emptied updates left with a watch event, and reports whether the node must be reconciled.
func emptied(e watch.Event, left map[types.UID]bool) bool {
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return true // the watch broke
	}
	switch e.Type {
	case watch.Deleted:
		delete(left, pod.UID)
		return len(left) == 0
	case watch.Added:
		return !left[pod.UID]
	default:
		return false
	}
}

func onNode(name string) client.MatchingFieldsSelector {
	return client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", name)}
}
