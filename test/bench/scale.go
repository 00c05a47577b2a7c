package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"liqo.io/liqo/test/playground"
)

// Both is the same Deployment in both clusters at the same time. It measures the work that is unavoidable if a pod exists in both clusters.
const Both Kind = "both, directly"

// scaleBench measures thousands of pods on a virtual node. The nodes are fake and run no containers. API servers, schedulers, controller managers and
// Liqo are real.
type scaleBench struct {
	bench
	// sizes are the numbers of pods of successive measurements. latencies are measured with the size nearest to objects.
	sizes    []int
	latency  bool
	kubelets []*exec.Cmd
}

// objects is the number of objects of each kind for measurements of latencies.
const objects = 1000

// run runs the whole benchmark. It deletes the clusters before it returns.
func (b *scaleBench) run(ctx context.Context) (*ScaleResult, error) {
	return onMachine(ctx, &b.machine, b.end, b.measureAll)
}

// end stops the fake kubelets and deletes the clusters.
func (b *scaleBench) end(ctx context.Context) error {
	b.stop()
	return b.remove(ctx)
}

func (b *scaleBench) measureAll(ctx context.Context) (result *ScaleResult, err error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	result = &ScaleResult{}
	for _, size := range b.sizes {
		if err = b.measureSize(ctx, result, size); err != nil {
			break
		}
	}
	// Complete the results even after an error, because the runs before it are useful.
	err = errors.Join(err, b.audit(context.WithoutCancel(ctx), result.Runs))
	result.conclude()
	return result, err
}

// prepare creates the clusters with their fake nodes. It also starts a few pods of each kind, because the first pods of each kind take longer.
func (b *scaleBench) prepare(ctx context.Context) error {
	began := time.Now()
	most := 0
	for _, size := range b.sizes {
		most = max(most, size)
	}
	if err := b.clusters(ctx, "--set-string", "offloading.defaultNodeResources.pods="+strconv.Itoa(2*most)); err != nil {
		return err
	}
	var group errgroup.Group
	for _, c := range []*playground.Cluster{b.rome, b.milan} {
		group.Go(func() error { return b.addFakeNodes(ctx, c, most) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := b.countTraffic(ctx); err != nil {
		return err
	}
	for _, kind := range []Kind{Both, Offloaded} {
		if _, err := b.measure(ctx, kind, 5, nil, b.places(kind)...); err != nil {
			return err
		}
	}
	report("clusters rome and milan are peered and warm after %.0f s", time.Since(began).Seconds())
	return nil
}

func (b *scaleBench) places(kind Kind) []place {
	switch kind {
	case Both:
		return []place{{b.rome, directNamespace, fake}, {b.milan, directNamespace, fake}}
	case Direct:
		return []place{{b.milan, directNamespace, fake}}
	case Least, Written:
		return []place{{b.rome, directNamespace, on(leastNode)}}
	default:
		return []place{{b.rome, offloadedNamespace, on("milan")}}
	}
}

// measureSize adds the runs with size pods to the result. If latencies are measured with this size, it adds them too.
func (b *scaleBench) measureSize(ctx context.Context, result *ScaleResult, size int) error {
	repeats := 1
	if size == objects { // this size is fast enough to be repeated
		repeats = b.runs
	}
	for i := range repeats {
		kinds := []Kind{Both, Offloaded, Written}
		if i == 0 { // no target concerns the others
			kinds = append(kinds, Least, Direct)
		}
		for _, kind := range kinds {
			var bare *carrier
			if kind == Least || kind == Written {
				var err error
				if bare, err = b.carry(ctx, kind, size); err != nil {
					return err
				}
			}
			before, err := traffic(ctx, b.machine, b.rome)
			if err != nil {
				return err
			}
			bytes := before
			run, err := b.measure(ctx, kind, size, func(ctx context.Context) (err error) {
				if bytes, err = traffic(ctx, b.machine, b.rome); err != nil || !b.latency || size != b.latencySize() || i > 0 {
					return err
				}
				var more []Latency
				switch kind {
				case Both:
					more, err = b.latencies(ctx, oneStatuses, bareStatuses)
				case Offloaded:
					more, err = b.latencies(ctx, configMaps, services, podStatuses)
				}
				result.Latencies = append(result.Latencies, more...)
				return err
			}, b.places(kind)...)
			if bare != nil {
				err = errors.Join(err, bare.end(context.WithoutCancel(ctx)))
			}
			if err != nil {
				return fmt.Errorf("measuring %d pods, %s: %w", size, kind, err)
			}
			run.Bytes = bytes - before
			report("%s: %d pods Ready after %.2f s, gone after %.2f s", kind, size, run.Seconds, run.DeleteSeconds)
			result.Runs = append(result.Runs, run)
		}
	}
	return nil
}

// latencySize returns the number of pods with which latencies are measured: the size nearest to the one in the targets.
func (b *scaleBench) latencySize() int {
	best := b.sizes[0]
	for _, size := range b.sizes {
		if abs(size-objects) < abs(best-objects) {
			best = size
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }
