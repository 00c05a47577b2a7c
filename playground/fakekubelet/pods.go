package fakekubelet

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
)

// podWorkers is the number of pods that are processed concurrently. More workers do not help if the API server has few CPU cores.
const podWorkers = 16

// pods simulates the lifecycle of the pods that are bound to the fake nodes.
type pods struct {
	client    kubernetes.Interface
	config    Config
	nodes     *nodes
	addresses *addresses
}

func newPods(client kubernetes.Interface, config Config, nodes *nodes) *pods {
	return &pods{client: client, config: config, nodes: nodes, addresses: newAddresses(config.PodCIDR)}
}

// run reconciles pods after each change until ctx ends.
func (p *pods) run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](50*time.Millisecond, 10*time.Second))
	defer context.AfterFunc(ctx, queue.ShutDown)()
	factory := informers.NewSharedInformerFactoryWithOptions(p.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "spec.nodeName!=" }),
		informers.WithTransform(withoutManagedFields))
	informer := factory.Core().V1().Pods().Informer()
	changed := func(object any) {
		if pod, ok := object.(*corev1.Pod); ok && p.ours(pod) {
			queue.Add(cache.ObjectName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
	gone := func(object any) {
		if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		if pod, ok := object.(*corev1.Pod); ok {
			p.addresses.free(pod.UID)
		}
	}
	// Record the addresses of existing pods before the event handler runs, so that no new pod gets one of them.
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	for _, object := range informer.GetStore().List() {
		pod, ok := object.(*corev1.Pod)
		if !ok || !p.ours(pod) || pod.Spec.HostNetwork {
			continue
		}
		if address, err := netip.ParseAddr(pod.Status.PodIP); err == nil {
			p.addresses.keep(pod.UID, address)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, object any) { changed(object) },
		DeleteFunc: gone,
	}); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}

	var group sync.WaitGroup
	defer group.Wait()
	for range podWorkers {
		group.Go(func() {
			for {
				key, ended := queue.Get()
				if ended {
					return
				}
				again := time.Duration(0)
				object, exists, err := informer.GetStore().GetByKey(key.String())
				if pod, ok := object.(*corev1.Pod); ok && exists && err == nil {
					again, err = p.sync(ctx, pod, time.Now())
				}
				switch {
				case err != nil && ctx.Err() == nil:
					if !apierrors.IsConflict(err) {
						p.config.Logger.Error("playing a pod failed", "pod", key.String(), "error", err)
					}
					queue.AddRateLimited(key)
				default:
					queue.Forget(key)
					if again > 0 {
						queue.AddAfter(key, again)
					}
				}
				queue.Done(key)
			}
		})
	}
	return nil
}

// withoutManagedFields removes the managed fields, about a third of a pod's memory. The API server keeps them if an update lacks them.
func withoutManagedFields(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return object, nil
}

func (p *pods) ours(pod *corev1.Pod) bool {
	_, ok := p.nodes.address(pod.Spec.NodeName)
	return ok
}

// sync reconciles one pod. It returns the delay until the next sync that is due without a change of the pod; zero means none.
func (p *pods) sync(ctx context.Context, pod *corev1.Pod, now time.Time) (time.Duration, error) {
	if pod.DeletionTimestamp != nil {
		return 0, p.end(ctx, pod, now)
	}
	if ended(pod) {
		return 0, nil
	}
	status, err := p.status(pod, now)
	if err != nil {
		return 0, err
	}
	if err := p.write(ctx, pod, status); err != nil {
		return 0, err
	}
	if end, ok := completion(pod, status.StartTime.Time); ok && status.Phase == corev1.PodRunning {
		return end.Sub(now), nil
	}
	return 0, nil
}

// end deletes a pod that has a deletion timestamp. If a finalizer blocks the deletion, end first writes the final status. The owner of the
// finalizer, such as the Job controller, needs to see how the pod ended.
func (p *pods) end(ctx context.Context, pod *corev1.Pod, now time.Time) error {
	if len(pod.Finalizers) > 0 && !ended(pod) {
		status, err := p.status(pod, now)
		if err != nil {
			return err
		}
		if err := p.write(ctx, pod, status); err != nil {
			return err
		}
	}
	if ptr.Deref(pod.DeletionGracePeriodSeconds, 1) == 0 {
		return nil // end already deleted it; only finalizers block it now
	}
	err := p.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To(int64(0)),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (p *pods) status(pod *corev1.Pod, now time.Time) (corev1.PodStatus, error) {
	host, _ := p.nodes.address(pod.Spec.NodeName)
	address := host
	if !pod.Spec.HostNetwork {
		free, ok := p.addresses.of(pod.UID)
		if !ok {
			return corev1.PodStatus{}, fmt.Errorf("giving pod %s/%s an address: none is left in %s", pod.Namespace, pod.Name, p.config.PodCIDR)
		}
		address = free
	}
	return statusOf(pod, now, host, address), nil
}

// write updates the pod's status if it differs. It fails with a conflict if the pod has changed since it was read.
func (p *pods) write(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	if apiequality.Semantic.DeepEqual(pod.Status, status) {
		return nil
	}
	changed := *pod
	changed.Status = status
	_, err := p.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		p.addresses.free(pod.UID) // the informer may have reported the deletion before this address was assigned
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
