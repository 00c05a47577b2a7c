package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/playground"
)

// prefix distinguishes the clusters of the benchmark from others on the machine.
const prefix = "bench-"

// Namespaces of the measured pods.
const (
	offloadedNamespace = "bench"        // in rome
	twinNamespace      = "bench-rome"   // in milan, of the one above
	directNamespace    = "bench-direct" // in both
)

// settle is the time after the last pod is Ready, or deleted, during which Liqo's writes still count for the run.
const settle = 3 * time.Second

type bench struct {
	pods, runs int
	// patience is how long a run waits until the machine is idle.
	patience time.Duration

	machine     playground.Machine
	rome, milan *playground.Cluster
	// processes are the pods of Liqo's processes, by their name in the report.
	processes map[string]*corev1.Pod
	// installation are all pods of Liqo in rome: those of its namespace, and virtual kubelets and gateways of its peers.
	installation []corev1.Pod
}

// run runs the whole benchmark. It deletes the clusters before it returns.
func (b *bench) run(ctx context.Context) (*Result, error) {
	return onMachine(ctx, &b.machine, b.remove, b.measureAll)
}

// onMachine runs a measurement with the playground of this machine, and stores that in machine. Afterwards, even after a failure, it calls remove and
// deletes the files.
func onMachine[R any](ctx context.Context, machine *playground.Machine, remove func(context.Context) error, measure func(context.Context) (R, error)) (result R, err error) {
	dir, err := os.MkdirTemp("", "liqo-bench-")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if *machine, err = playground.Find(dir); err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, remove(context.WithoutCancel(ctx))) }()
	return measure(ctx)
}

func (b *bench) measureAll(ctx context.Context) (*Result, error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	result := &Result{Pods: b.pods}
	for i := range b.runs {
		// Alternate between both kinds, so that a change of the machine's speed during the run affects both alike.
		kinds := []func(context.Context, int) (Run, error){b.direct, b.offloaded}
		if i%2 == 1 {
			kinds[0], kinds[1] = kinds[1], kinds[0]
		}
		for _, kind := range kinds {
			r, err := kind(ctx, b.pods)
			if err != nil {
				return nil, err
			}
			report("%s: %d pods Ready after %.2f s", r.Kind, b.pods, r.Seconds)
			result.Runs = append(result.Runs, r)
		}
	}
	if err := b.audit(ctx, result.Runs); err != nil {
		return nil, err
	}
	result.conclude()
	return result, nil
}

func (b *bench) remove(ctx context.Context) error {
	var errs []error
	for _, id := range []string{"rome", "milan"} {
		errs = append(errs, b.machine.Delete(ctx, &playground.Cluster{Name: prefix + id}))
	}
	return errors.Join(errs...)
}

// prepare creates the clusters. It also starts a few pods of both kinds, because the first pods of each kind take longer.
func (b *bench) prepare(ctx context.Context) error {
	began := time.Now()
	if err := b.clusters(ctx); err != nil {
		return err
	}
	for _, kind := range []func(context.Context, int) (Run, error){b.direct, b.offloaded} {
		if _, err := kind(ctx, 5); err != nil {
			return err
		}
	}
	report("clusters rome and milan are peered and warm after %.0f s", time.Since(began).Seconds())
	return nil
}

// clusters creates the clusters, installs Liqo with these flags and peers them.
func (b *bench) clusters(ctx context.Context, flags ...string) error {
	if err := b.remove(ctx); err != nil { // remove the clusters that a killed run has left
		return err
	}
	var group errgroup.Group
	for id, cluster := range map[string]**playground.Cluster{"rome": &b.rome, "milan": &b.milan} {
		group.Go(func() (err error) {
			if *cluster, err = b.machine.Create(ctx, prefix, id, "--audit"); err != nil {
				return err
			}
			return b.machine.Install(ctx, *cluster, flags...)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := b.machine.Peer(ctx, b.rome, b.milan); err != nil {
		return err
	}
	for cluster, names := range map[*playground.Cluster][]string{b.rome: {offloadedNamespace, directNamespace}, b.milan: {directNamespace}} {
		for _, name := range names {
			if err := cluster.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
				return err
			}
		}
	}
	if _, err := b.machine.Liqoctl(ctx, "offload", "namespace", offloadedNamespace, "--kubeconfig", b.rome.Kubeconfig, "--timeout", "60s"); err != nil {
		return err
	}
	return b.find(ctx)
}

// find finds the pods of Liqo's processes.
func (b *bench) find(ctx context.Context) error {
	b.processes = map[string]*corev1.Pod{}
	for _, want := range []struct {
		name      string
		cluster   *playground.Cluster
		namespace string
		labels    client.MatchingLabels
	}{
		{consumerManager, b.rome, api.Namespace, client.MatchingLabels{"app.kubernetes.io/component": "controller-manager"}},
		{providerManager, b.milan, api.Namespace, client.MatchingLabels{"app.kubernetes.io/component": "controller-manager"}},
		{virtualKubelet, b.rome, api.TenantNamespace("milan"), client.MatchingLabels{api.LabelVirtualNode: "milan"}},
	} {
		var pods corev1.PodList
		if err := want.cluster.List(ctx, &pods, client.InNamespace(want.namespace), want.labels); err != nil {
			return fmt.Errorf("finding the %s: %w", want.name, err)
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("finding the %s: there are %d pods, want one", want.name, len(pods.Items))
		}
		b.processes[want.name] = &pods.Items[0]
	}
	b.installation = nil
	for _, namespace := range []string{api.Namespace, api.TenantNamespace("milan")} {
		var pods corev1.PodList
		if err := b.rome.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("finding the pods of Liqo in namespace %s of rome: %w", namespace, err)
		}
		b.installation = append(b.installation, slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Status.Phase != corev1.PodRunning })...)
	}
	return nil
}

func report(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
