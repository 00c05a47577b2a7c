package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"liqo.io/liqo/test/playground"
)

// counter counts the pods of a namespace that are Ready.
type counter struct {
	changed chan struct{}

	mu         sync.Mutex
	ready, all int
}

// count starts a counter, which ends with the context. The counter must not load the machine, so it stores only whether each pod is Ready.
func count(ctx context.Context, c *playground.Cluster, namespace string) (*counter, error) {
	set, err := frugal(c)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(set, 0, informers.WithNamespace(namespace), informers.WithTransform(func(obj any) (any, error) {
		if pod, ok := obj.(*corev1.Pod); ok {
			return &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
				Status:     corev1.PodStatus{Conditions: pod.Status.Conditions},
			}, nil
		}
		return obj, nil
	}))
	n := &counter{changed: make(chan struct{}, 1)}
	add := func(ready, all int) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.ready, n.all = n.ready+ready, n.all+all
		select {
		case n.changed <- struct{}{}:
		default:
		}
	}
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(pod any) { add(ready(pod), 1) },
		UpdateFunc: func(before, pod any) {
			if change := ready(pod) - ready(before); change != 0 {
				add(change, 0)
			}
		},
		DeleteFunc: func(pod any) {
			if unknown, ok := pod.(cache.DeletedFinalStateUnknown); ok {
				pod = unknown.Obj
			}
			add(-ready(pod), -1)
		},
	})
	if err != nil {
		return nil, err
	}
	factory.StartWithContext(ctx)
	begun, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for kind, synced := range factory.WaitForCacheSync(begun.Done()) {
		if !synced {
			return nil, fmt.Errorf("watching %v: %w", kind, context.Cause(begun))
		}
	}
	return n, nil
}

// frugal returns a client that causes about half the load of JSON, on the API server and on this process.
func frugal(c *playground.Cluster) (kubernetes.Interface, error) {
	config := rest.CopyConfig(c.Config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}

// ready returns 1 for a pod that is Ready, otherwise 0.
func ready(pod any) int {
	p, ok := pod.(*corev1.Pod)
	if ok && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		return 1
	}
	return 0
}

func (n *counter) wait(ctx context.Context, enough func(ready, all int) bool) error {
	for {
		n.mu.Lock()
		ready, all := n.ready, n.all
		n.mu.Unlock()
		if enough(ready, all) {
			return nil
		}
		select {
		case <-n.changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting, with %d of %d pods Ready: %w", ready, all, context.Cause(ctx))
		}
	}
}
