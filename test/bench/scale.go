package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"liqo.io/liqo/test/playground"
)

// Both is the Deployment in both clusters at the same moment: the work that can't be saved when an offloaded pod exists in both.
const Both Kind = "both, directly"

// scaleBench measures thousands of pods on a virtual node, on nodes that do not exist: API servers, schedulers, controller managers and all
// of ours are real, only nothing runs.
type scaleBench struct {
	bench
	// sizes are how many pods there are, one after the other; latencies are measured with the one nearest to objects.
	sizes    []int
	latency  bool
	kubelets []*exec.Cmd
}

// objects is how many there are of a kind when latencies are measured.
const objects = 1000

// run does everything; the clusters are gone when it returns.
func (b *scaleBench) run(ctx context.Context) (result *ScaleResult, err error) {
	dir, err := os.MkdirTemp("", "liqo-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if b.machine, err = playground.Find(dir); err != nil {
		return nil, err
	}
	defer func() {
		b.stop()
		err = errors.Join(err, b.remove(context.WithoutCancel(ctx)))
	}()
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	result = &ScaleResult{}
	for _, size := range b.sizes {
		if err = b.measureSize(ctx, result, size); err != nil {
			break
		}
	}
	// What was measured before something went wrong is worth reading.
	err = errors.Join(err, b.audit(context.WithoutCancel(ctx), result.Runs))
	result.conclude()
	return result, err
}

// prepare makes the clusters with their make-believe nodes, and a few pods of each kind, so that nothing measured is the first of its kind.
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

// measureSize adds the runs of one size to the result, and the latencies if they are measured with it.
func (b *scaleBench) measureSize(ctx context.Context, result *ScaleResult, size int) error {
	repeats := 1
	if size == objects { // the one that is fast enough to be repeated
		repeats = b.runs
	}
	for i := range repeats {
		for _, kind := range []Kind{Both, Offloaded, Least, Written, Direct} {
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

// latencySize is with how many pods latencies are measured: the size nearest to what is promised.
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
