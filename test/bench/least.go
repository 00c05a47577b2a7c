package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	informersv1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Least is a Deployment on a node of rome that the simplest possible program serves, instead of a virtual kubelet. It measures the minimum that these
// API servers need on this machine, whatever the implementation.
const Least Kind = "carried over by a bare program"

// Written is like Least, and also makes the writes that Liqo's protocol requires for each pod: a token that is bound to the pod, a Secret in milan
// that contains the token, and an object with the pod's specification, from which a controller in milan creates the pod. There is no admission, no
// check and no recovery.
const Written Kind = "carried over with the writes of the contract"

const (
	// leastNode is the name of the node of that program in rome.
	leastNode = "least"
	// leastWorkers is the number of concurrent writes in each cluster, leastHeartbeat the interval of lease renewals.
	leastWorkers   = 16
	leastHeartbeat = 10 * time.Second
)

// carrier creates a pod in milan for each pod of its node, and writes the status back to rome. It checks nothing, repairs nothing and keeps no state.
type carrier struct {
	rome, milan kubernetes.Interface
	here, there typedcorev1.PodInterface
	twin        corev1.PodSpec
	records     dynamic.ResourceInterface // nil for Least
	group       *errgroup.Group
	stop        context.CancelFunc
}

// carry creates the node and starts the carrier. end stops it.
func (b *scaleBench) carry(ctx context.Context, kind Kind, pods int) (*carrier, error) {
	rome, err := frugal(b.rome)
	if err != nil {
		return nil, err
	}
	milan, err := frugal(b.milan)
	if err != nil {
		return nil, err
	}
	c := &carrier{
		rome: rome, milan: milan, here: rome.CoreV1().Pods(directNamespace), there: milan.CoreV1().Pods(directNamespace),
		twin: place{b.milan, directNamespace, fake}.deployment(1).Spec.Template.Spec,
	}
	if kind == Written {
		if c.records, err = b.defineRecords(ctx); err != nil {
			return nil, err
		}
	}
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("1000Gi"), corev1.ResourcePods: resource.MustParse(strconv.Itoa(2 * pods)),
	}
	now := metav1.Now()
	if _, err := rome.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: leastNode, Labels: map[string]string{corev1.LabelHostname: leastNode}},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now},
		}},
	}, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating the node of the bare program: %w", err)
	}
	ctx, c.stop = context.WithCancel(ctx)
	c.group, ctx = errgroup.WithContext(ctx)
	c.group.Go(func() error { return c.live(ctx) })
	c.group.Go(func() error { return follow(ctx, podsOf(rome, "spec.nodeName="+leastNode), c.out(ctx)) })
	c.group.Go(func() error { return follow(ctx, podsOf(milan, ""), c.back(ctx)) })
	if c.records != nil {
		c.group.Go(func() error { return follow(ctx, recordsOf(c.records), c.make(ctx)) })
	}
	return c, nil
}

// end stops the carrier and deletes its node.
func (c *carrier) end(ctx context.Context) error {
	c.stop()
	err := c.group.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, c.rome.CoreV1().Nodes().Delete(ctx, leastNode, metav1.DeleteOptions{}))
}

// live renews the lease of the node.
func (c *carrier) live(ctx context.Context) error {
	leases := c.rome.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leastNode}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(leastNode), LeaseDurationSeconds: ptr.To(int32(40)), RenewTime: ptr.To(metav1.NowMicro()),
	}}, metav1.CreateOptions{})
	for err == nil && pause(ctx, leastHeartbeat) {
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return errors.Join(err, leases.Delete(context.WithoutCancel(ctx), leastNode, metav1.DeleteOptions{}))
}

// podsOf returns an informer for pods of a cluster.
func podsOf(set kubernetes.Interface, selector string) cache.SharedIndexInformer {
	return informersv1.NewFilteredPodInformer(set, directNamespace, 0, nil, func(o *metav1.ListOptions) { o.FieldSelector = selector })
}

// follow calls todo for each change of an object, and runs the returned functions in workers.
func follow[T metav1.Object](ctx context.Context, informer cache.SharedIndexInformer, todo func(what watch.EventType, object T) func() error) error {
	workers, ctx := errgroup.WithContext(ctx)
	room := make(chan struct{}, leastWorkers)
	changed := func(what watch.EventType, object any) {
		if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		of, ok := object.(T)
		if !ok {
			return
		}
		if do := todo(what, of); do != nil {
			workers.Go(func() error {
				room <- struct{}{}
				defer func() { <-room }()
				if err := do(); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
					report("the bare program fails: %v", err)
					return err
				}
				return nil
			})
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { changed(watch.Added, object) },
		UpdateFunc: func(_, object any) { changed(watch.Modified, object) },
		DeleteFunc: func(object any) { changed(watch.Deleted, object) },
	}); err != nil {
		return fmt.Errorf("following: %w", err)
	}
	informer.RunWithContext(ctx)
	return workers.Wait()
}

// out returns the function for changes of pods in rome: it creates and deletes the pods in milan.
func (c *carrier) out(ctx context.Context) func(watch.EventType, *corev1.Pod) func() error {
	made, removed := sets.New[string](), sets.New[string]()
	return func(what watch.EventType, pod *corev1.Pod) func() error {
		switch {
		case what == watch.Deleted:
		case pod.DeletionTimestamp != nil && !removed.Has(pod.Name):
			removed.Insert(pod.Name)
			return func() error {
				if err := c.forget(ctx, pod.Name); err != nil {
					return err
				}
				return c.there.Delete(ctx, pod.Name, metav1.DeleteOptions{})
			}
		case !made.Has(pod.Name):
			made.Insert(pod.Name)
			if c.records != nil {
				return func() error { return c.record(ctx, pod) }
			}
			return func() error {
				_, err := c.there.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Labels: pod.Labels}, Spec: c.twin}, metav1.CreateOptions{})
				return err
			}
		}
		return nil
	}
}

// back returns the function for changes of pods in milan. It copies the status of each pod to rome once, when the pod is Ready, and removes the pod
// from rome when the pod in milan is deleted.
func (c *carrier) back(ctx context.Context) func(watch.EventType, *corev1.Pod) func() error {
	told := sets.New[string]()
	return func(what watch.EventType, pod *corev1.Pod) func() error {
		switch {
		case what == watch.Deleted:
			return func() error {
				return c.here.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))})
			}
		case ready(pod) == 1 && !told.Has(pod.Name):
			told.Insert(pod.Name)
			return func() error {
				status, err := json.Marshal(map[string]any{"status": pod.Status})
				if err == nil {
					_, err = c.here.Patch(ctx, pod.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status")
				}
				return err
			}
		}
		return nil
	}
}
