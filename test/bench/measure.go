package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
)

// direct starts the pods in milan itself.
func (b *bench) direct(ctx context.Context, pods int) (Run, error) {
	return b.measure(ctx, Direct, b.milan, directNamespace, b.milan.Node(), pods)
}

// offloaded starts the same pods in rome, on its virtual node.
func (b *bench) offloaded(ctx context.Context, pods int) (Run, error) {
	return b.measure(ctx, Offloaded, b.rome, offloadedNamespace, "milan", pods)
}

func (b *bench) measure(ctx context.Context, kind Kind, c *playground.Cluster, namespace, node string, pods int) (Run, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, fmt.Errorf("%d pods took too long (%s)", pods, kind))
	defer cancel()
	run := Run{Kind: kind}
	var err error
	if run.Idle, err = quiet(ctx, 2*time.Minute); err != nil {
		return run, err
	}
	counter, err := count(ctx, c, namespace)
	if err != nil {
		return run, err
	}
	usage, err := b.usage()
	if err != nil {
		return run, err
	}
	busy, _, err := machine()
	if err != nil {
		return run, err
	}

	deployment := deployment(namespace, node, int32(pods))
	run.began = time.Now()
	if err := c.Create(ctx, deployment); err != nil {
		return run, fmt.Errorf("creating the pods: %w", err)
	}
	if err := counter.wait(ctx, func(ready, _ int) bool { return ready == pods }); err != nil {
		return run, err
	}
	run.Seconds = time.Since(run.began).Seconds()
	after, _, err := machine()
	if err != nil {
		return run, err
	}
	run.MachineCPU = after - busy
	pause(ctx, settle)
	if run.Usage, err = b.usage(); err != nil {
		return run, err
	}
	for name, before := range usage {
		now := run.Usage[name]
		now.CPU -= before.CPU
		run.Usage[name] = now
	}

	run.deleted = time.Now()
	if err := c.Delete(ctx, deployment, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		return run, fmt.Errorf("deleting the pods: %w", err)
	}
	if err := counter.wait(ctx, func(_, all int) bool { return all == 0 }); err != nil {
		return run, err
	}
	if err := b.gone(ctx, c, deployment); err != nil {
		return run, err
	}
	run.DeleteSeconds = time.Since(run.deleted).Seconds()
	pause(ctx, settle)
	run.ended = time.Now()
	return run, ctx.Err()
}

// deployment is the same for both kinds but for where it is.
func deployment(namespace, node string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "bench"}
	grace := int64(1)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bench"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector:                  map[string]string{corev1.LabelHostname: node},
					TerminationGracePeriodSeconds: &grace,
					Containers:                    []corev1.Container{{Name: "server", Image: playground.TestServer}},
				},
			},
		},
	}
}

// gone waits until the Deployment and all measured pods in milan are.
func (b *bench) gone(ctx context.Context, c *playground.Cluster, deployment *appsv1.Deployment) error {
	for {
		left := 0
		for _, namespace := range []string{directNamespace, twinNamespace} {
			var pods corev1.PodList
			if err := b.milan.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
				return err
			}
			left += len(pods.Items)
		}
		err := c.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)
		if left == 0 && apierrors.IsNotFound(err) {
			return nil
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if !pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("waiting for %d pods in milan and their Deployment to go: %w", left, context.Cause(ctx))
		}
	}
}

// counter follows the pods of a namespace.
type counter struct {
	changed chan struct{}
	pods    cache.Store
}

// count begins to watch; it ends with the context.
func count(ctx context.Context, c *playground.Cluster, namespace string) (*counter, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(c.Set, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Pods().Informer()
	n := &counter{changed: make(chan struct{}, 1), pods: informer.GetStore()}
	notify := func() {
		select {
		case n.changed <- struct{}{}:
		default:
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
		DeleteFunc: func(any) { notify() },
	})
	if err != nil {
		return nil, err
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("watching pods: %w", context.Cause(ctx))
	}
	return n, nil
}

func (n *counter) wait(ctx context.Context, enough func(ready, all int) bool) error {
	for {
		ready := map[types.UID]bool{}
		all := n.pods.List()
		for _, object := range all {
			pod := object.(*corev1.Pod)
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
					ready[pod.UID] = true
				}
			}
		}
		if enough(len(ready), len(all)) {
			return nil
		}
		select {
		case <-n.changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting, with %d of %d pods Ready: %w", len(ready), len(all), context.Cause(ctx))
		}
	}
}

// usage measures our processes now.
func (b *bench) usage() (map[string]playground.Usage, error) {
	all := map[string]playground.Usage{}
	for name, pod := range b.processes {
		used, err := playground.Measure(pod)
		if err != nil {
			return nil, err
		}
		all[name] = used
	}
	return all, nil
}

// quiet waits until the machine has been idle, at least nine tenths of all its cores for two seconds, but no longer than patience: the
// machine may have other work. It returns the share that was idle in the last two seconds.
func quiet(ctx context.Context, patience time.Duration) (float64, error) {
	const enough, window = 0.9, 2 * time.Second
	for deadline := time.Now().Add(patience); ; {
		busy, idle, err := machine()
		if err != nil {
			return 0, err
		}
		if !pause(ctx, window) {
			return 0, context.Cause(ctx)
		}
		busyNow, idleNow, err := machine()
		if err != nil {
			return 0, err
		}
		share := (idleNow - idle) / (idleNow - idle + busyNow - busy)
		if share >= enough || time.Now().After(deadline) {
			return share, nil
		}
	}
}

// machine returns the seconds that all cores together have been busy and idle since the machine started.
func machine() (busy, idle float64, err error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	for i, field := range strings.Fields(line)[1:] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("reading /proc/stat: %w", err)
		}
		switch i {
		case 3, 4: // idle, and waiting for a disk
			idle += n / 100
		case 8, 9: // guests, which are counted as user already
		default:
			busy += n / 100
		}
	}
	return busy, idle, nil
}

// pause waits and tells whether the context is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
