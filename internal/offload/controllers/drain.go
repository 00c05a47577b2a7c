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

// evictionRetry is how often an eviction is tried again that a disruption budget refused: budgets are not watched.
const evictionRetry = 3 * time.Second

// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch;delete
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create

// drains empties virtual nodes. The pods of a node are not cached: they are listed when a drain begins, and watched while it lasts.
type drains struct {
	client client.WithWatch
	// done tells the controller that a node has no pods left, or has other ones.
	done chan event.GenericEvent

	mu      sync.Mutex
	watched map[types.NamespacedName]bool
}

func newDrains(c client.WithWatch) *drains {
	return &drains{client: c, done: make(chan event.GenericEvent, 1), watched: map[types.NamespacedName]bool{}}
}

// drain asks the pods of the node of that VirtualNode to leave, and returns nil when all have. Until then it returns a wait that tells for what,
// and tells done later. Since is when the drain began: pods that have not left within their limit are removed by force, and those that not
// even that removes are returned after a while, to be waited for no longer.
func (d *drains) drain(ctx context.Context, node *offloadingv1beta1.VirtualNode, unreachable bool, since, now time.Time) (stuck []string, err error) {
	var list corev1.PodList
	if err := d.client.List(ctx, &list, onNode(node.Name)); err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", node.Name, err)
	}
	left := map[types.UID]bool{}
	// All of them: a policy of the chart keeps pods of DaemonSets from coming back, and what is left of a finished one in the provider goes only
	// while the virtual kubelet runs.
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
	again, what := limit.Sub(now), fmt.Sprintf("they are removed by force at %s", limit.UTC().Format(time.RFC3339))
	if force {
		again, what = evictionRetry, fmt.Sprintf("they are left behind at %s", end.UTC().Format(time.RFC3339))
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
	return nil, kube.WaitFor(again, string(offloadingv1beta1.VirtualNodeDraining), "waiting for %d pods to leave, %s: %s",
		len(pods), what, shown(stuck))
}

// drainShown is how many pods are told by name.
const drainShown = 3

// shown names the first few.
func shown(names []string) string {
	if len(names) <= drainShown {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:drainShown], ", ") + ", ..."
}

// expel makes one pod go: by eviction, which respects disruption budgets, or at once.
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
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // gone, or another one by now
		return nil
	}
	if err != nil {
		return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// follow watches the pods of a node from what was listed, and tells done when those left are gone, when others have come, or when it can't
// watch any longer. One watch per node at a time.
func (d *drains) follow(ctx context.Context, node *offloadingv1beta1.VirtualNode, from string, left map[types.UID]bool) {
	key := client.ObjectKeyFromObject(node)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watched[key] {
		return
	}
	// The pass ends before the watch does.
	ctx = context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	options := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: from}}
	onNode(node.Name).ApplyToList(options)
	pods, err := d.client.Watch(ctx, &corev1.PodList{}, options)
	if err != nil { // the limit of the drain brings the node back all the same
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

// watchTimeout bounds a watch; a drain that lasts longer begins another one.
const watchTimeout = 10 * time.Minute

// emptied keeps account of who is left, and tells whether somebody should look again.
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
