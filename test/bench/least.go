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

// Least is the Deployment on a node of rome behind which is the least program that carries pods over: what these API servers take at the very
// least on this machine, for whoever does it.
const Least Kind = "carried over by a bare program"

// Written is the same with what the contract has written for each pod besides: a token that is bound to it, a Secret in milan that holds it, and an object
// with the pod's specification, from which somebody in milan makes the pod. No admission, no check, no recovery: the writes alone.
const Written Kind = "carried over with the writes of the contract"

const (
	// leastNode is the node of the least program in rome.
	leastNode = "least"
	// leastWorkers is how much it writes at a time in each cluster, leastHeartbeat how often it says that its node lives.
	leastWorkers   = 16
	leastHeartbeat = 10 * time.Second
)

// carrier makes for each pod of its node one in milan, and writes its status back. It asks nobody, repairs nothing and remembers nothing.
type carrier struct {
	rome, milan kubernetes.Interface
	here, there typedcorev1.PodInterface
	twin        corev1.PodSpec
	records     dynamic.ResourceInterface // nil for Least
	group       *errgroup.Group
	stop        context.CancelFunc
}

// carry begins to carry pods over; stop ends that, and the node.
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
		return nil, fmt.Errorf("making the node of the bare program: %w", err)
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

// end stops it and removes its node.
func (c *carrier) end(ctx context.Context) error {
	c.stop()
	err := c.group.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, c.rome.CoreV1().Nodes().Delete(ctx, leastNode, metav1.DeleteOptions{}))
}

// live says that the node does.
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

// podsOf watches the pods of a cluster.
func podsOf(set kubernetes.Interface, selector string) cache.SharedIndexInformer {
	return informersv1.NewFilteredPodInformer(set, directNamespace, 0, nil, func(o *metav1.ListOptions) { o.FieldSelector = selector })
}

// follow hands what each change of an object asks for to workers.
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

// out makes the pods of milan, and removes them.
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

// back writes the status of each pod that is Ready, once, and removes it from rome when it is gone.
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
