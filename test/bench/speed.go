package main

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// probeInterval is the time between two computations of speedProbe. The probe takes about 1 % of a core.
const probeInterval = 250 * time.Millisecond

// speedProbe measures how fast a core of this machine is while something else runs: virtual machines share their cores with others, and the same program can take twice as
// long a minute later. It repeats one computation until stop is called, which returns the median of its CPU time in ms.
func speedProbe(ctx context.Context) (stop func() float64) {
	ctx, cancel := context.WithCancel(ctx)
	result := make(chan float64)
	go func() {
		runtime.LockOSThread() // the clock is that of the thread
		defer runtime.UnlockOSThread()
		numbers := rand.New(rand.NewPCG(1, 2)).Perm(1 << 14) // more than fits into the smallest cache
		work := slices.Clone(numbers)
		var costs []float64
		for first := true; first || pause(ctx, probeInterval); first = false {
			began := threadTime()
			copy(work, numbers)
			slices.Sort(work)
			costs = append(costs, float64(threadTime()-began)/float64(time.Millisecond))
		}
		result <- median(costs)
	}()
	return func() float64 {
		cancel()
		return <-result
	}
}

// threadTime returns the CPU time of the current thread (clock_gettime(2), CLOCK_THREAD_CPUTIME_ID).
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err) // every Linux kernel has this clock
	}
	return time.Duration(ts.Nano())
}
