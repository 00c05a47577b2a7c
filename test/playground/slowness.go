package playground

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

const (
	// programStart is how long bin/playground takes to start and end on the reference machine of the budgets: two cores, idle.
	programStart = 40 * time.Millisecond
	// programStarts is the number of measurements.
	programStarts = 25
	// slowest is the maximum factor by which a budget is extended. On a slower machine, timeouts of tests and users expire as well.
	slowest = 2.0
)

// Slowness returns how much slower this machine starts a program than the reference machine of the budgets: a factor between 1 and slowest. Virtual
// machines of the same size differ by that much from one day to another, and starting programs takes most of the time of tests with clusters. Measure
// before clusters run: their load changes the result.
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

// slowness computes the factor from the median of the measurements.
func slowness(took []time.Duration) float64 {
	took = slices.Sorted(slices.Values(took))
	return min(max(float64(took[len(took)/2])/float64(programStart), 1), slowest)
}

// Budget returns an error if a suite exceeded its budget on a machine of that slowness. It prints how long the suite took.
func Budget(suite string, took, budget time.Duration, slowness float64) error {
	allowed := time.Duration(float64(budget) * slowness)
	fmt.Printf("== %s: %.1f s, of %.0f s (this machine takes %.2f times as long to start a program as the one that the budget of %.0f s is for)\n",
		suite, took.Seconds(), allowed.Seconds(), slowness, budget.Seconds())
	if took > allowed {
		return fmt.Errorf("%s took %v, which is more than %v", suite, took.Round(time.Second), allowed.Round(time.Second))
	}
	return nil
}
