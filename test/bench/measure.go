package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
)

// place is where a Deployment is created: a cluster, a namespace, and the node selector of the pods.
type place struct {
	cluster   *playground.Cluster
	namespace string
	selector  map[string]string
}

// on returns the node selector for one node.
func on(node string) map[string]string { return map[string]string{corev1.LabelHostname: node} }

// direct measures pods that run in milan without Liqo.
func (b *bench) direct(ctx context.Context, pods int) (Run, error) {
	return b.measure(ctx, Direct, pods, nil, place{b.milan, directNamespace, on(b.milan.Node())})
}

// offloaded measures the same pods on the virtual node in rome.
func (b *bench) offloaded(ctx context.Context, pods int) (Run, error) {
	return b.measure(ctx, Offloaded, pods, nil, place{b.rome, offloadedNamespace, on("milan")})
}

// measure creates a Deployment with this number of pods in every place at the same time, and waits until all pods are Ready. Then it calls then,
// unless that is nil, and deletes the Deployments.
func (b *bench) measure(ctx context.Context, kind Kind, pods int, then func(context.Context) error, places ...place) (Run, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run := Run{Kind: kind, Pods: pods}
	var err error
	if run.Idle, err = quiet(ctx, b.patience); err != nil {
		return run, err
	}
	var counters []*counter
	for _, p := range places {
		counter, err := count(ctx, p.cluster, p.namespace)
		if err != nil {
			return run, err
		}
		counters = append(counters, counter)
	}
	usage, err := b.usage()
	if err != nil {
		return run, err
	}
	footprint, err := b.footprint()
	if err != nil {
		return run, err
	}
	busy, _, err := machine()
	if err != nil {
		return run, err
	}
	cpu, err := b.clusterCPU()
	if err != nil {
		return run, err
	}

	probe := speedProbe(ctx)
	run.began = time.Now()
	if err := each(ctx, fmt.Sprintf("%d pods (%s) to be Ready", pods, kind), places, func(ctx context.Context, i int) error {
		if err := places[i].cluster.Create(ctx, places[i].deployment(int32(pods))); err != nil {
			return fmt.Errorf("creating the pods: %w", err)
		}
		return counters[i].wait(ctx, func(ready, _ int) bool { return ready == pods })
	}); err != nil {
		return run, err
	}
	run.Seconds = time.Since(run.began).Seconds()
	run.Probe = probe()
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
	if run.Footprint, err = b.footprint(); err != nil {
		return run, err
	}
	run.Footprint.CPU -= footprint.CPU

	if run.ClusterCPU, err = b.clusterCPU(); err != nil {
		return run, err
	}
	for name := range run.ClusterCPU {
		run.ClusterCPU[name] -= cpu[name]
	}
	run.settled = time.Now()
	if then != nil {
		if err := then(ctx); err != nil {
			return run, err
		}
	}

	run.deleted = time.Now()
	if err := each(ctx, fmt.Sprintf("%d pods (%s) to be gone", pods, kind), places, func(ctx context.Context, i int) error {
		deployment := places[i].deployment(0)
		if err := places[i].cluster.Delete(ctx, deployment, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			return fmt.Errorf("deleting the pods: %w", err)
		}
		if err := counters[i].wait(ctx, func(_, all int) bool { return all == 0 }); err != nil {
			return err
		}
		return b.gone(ctx, places[i].cluster, deployment)
	}); err != nil {
		return run, err
	}
	run.DeleteSeconds = time.Since(run.deleted).Seconds()
	pause(ctx, settle)
	run.ended = time.Now()
	return run, ctx.Err()
}

// phaseLimit is the maximum time until all pods are Ready, and until all are deleted. The time in between does not count.
const phaseLimit = 20 * time.Minute

// each calls do for all places concurrently, with phaseLimit as the timeout. what describes the awaited state, for the error message.
func each(ctx context.Context, what string, places []place, do func(context.Context, int) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, phaseLimit, fmt.Errorf("after %v still waiting for %s", phaseLimit, what))
	defer cancel()
	var group errgroup.Group
	for i := range places {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// deployment returns the Deployment for a place. All places differ only in namespace and node selector.
func (p place) deployment(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "bench"}
	grace := int64(1)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "bench"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector:                  p.selector,
					TerminationGracePeriodSeconds: &grace,
					Containers:                    []corev1.Container{{Name: "server", Image: playground.TestServer}},
				},
			},
		},
	}
}

// gone waits until the Deployment, and all measured pods in milan, are deleted.
func (b *bench) gone(ctx context.Context, c *playground.Cluster, deployment *appsv1.Deployment) error {
	for {
		left := 0
		for _, namespace := range []string{directNamespace, twinNamespace} {
			var pods metav1.PartialObjectMetadataList
			pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
			if err := b.milan.List(ctx, &pods, client.InNamespace(namespace), client.Limit(1)); err != nil {
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
			return fmt.Errorf("waiting for the pods in milan and their Deployment to go: %w", context.Cause(ctx))
		}
	}
}

// usage measures the current resource usage of Liqo's processes.
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

// footprint measures the current resource usage of all pods of Liqo in rome together.
func (b *bench) footprint() (total playground.Usage, err error) {
	for i := range b.installation {
		used, err := playground.Measure(&b.installation[i])
		if err != nil {
			return total, err
		}
		total.CPU += used.CPU
		total.Resident += used.Resident
	}
	return total, nil
}

// clusterCPU measures the CPU time that the programs of both clusters have used so far.
func (b *bench) clusterCPU() (map[string]float64, error) {
	all := map[string]float64{}
	for _, c := range []*playground.Cluster{b.rome, b.milan} {
		used, err := playground.MeasureNode(c.Node())
		if err != nil {
			return nil, err
		}
		for name, seconds := range used {
			all[c.ID+": "+name] = seconds
		}
	}
	return all, nil
}

// quiet waits until at least nine tenths of the machine's cores were idle for two seconds, but no longer than patience, because the machine may have
// other work. It returns the idle share of the last two seconds.
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

// machine returns the seconds that all cores together have been busy and idle since the boot.
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
		case 3, 4: // idle time, and time spent waiting for a disk
			idle += n / 100
		case 8, 9: // time of guests, which is included in user time already
		default:
			busy += n / 100
		}
	}
	return busy, idle, nil
}

// pause waits and reports whether the context is still valid.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
