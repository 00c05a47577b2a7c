package playground

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

const (
	// programStart is how long the machine for which budgets are stated needs to start and end bin/playground: two cores, idle.
	programStart = 40 * time.Millisecond
	// programStarts is how often it is measured.
	programStarts = 25
	// slowest is the largest factor by which a budget grows. Beyond it, waits of tests and users expire as well.
	slowest = 2.0
)

// Slowness measures how many times as long this machine needs to start a program as the machine for which budgets are stated, between 1 and 2. Virtual
// machines of the same size differ that much from one day to the other, and starting programs is most of what clusters do in a test. It is only
// meaningful before clusters run.
func (m Machine) Slowness(ctx context.Context) (float64, error) {
	var took []time.Duration
	for range programStarts {
		began := time.Now()
		if out, err := exec.CommandContext(ctx, m.bin("playground"), "--help").CombinedOutput(); err != nil {
			return 0, fmt.Errorf("starting %s: %w: %s", m.bin("playground"), err, out)
		}
		took = append(took, time.Since(began))
	}
	return slowness(took), nil
}

// slowness compares the median with programStart.
func slowness(took []time.Duration) float64 {
	took = slices.Sorted(slices.Values(took))
	return min(max(float64(took[len(took)/2])/float64(programStart), 1), slowest)
}

// Budget tells whether a suite kept its budget on a machine of that slowness, and prints how long it took.
func Budget(suite string, took, budget time.Duration, slowness float64) error {
	allowed := time.Duration(float64(budget) * slowness)
	fmt.Printf("== %s: %.1f s, of %.0f s (this machine takes %.2f times as long to start a program as the one that the budget of %.0f s is for)\n",
		suite, took.Seconds(), allowed.Seconds(), slowness, budget.Seconds())
	if took > allowed {
		return fmt.Errorf("%s took %v, which is more than %v", suite, took.Round(time.Second), allowed.Round(time.Second))
	}
	return nil
}
