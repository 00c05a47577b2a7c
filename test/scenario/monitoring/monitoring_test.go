package monitoring

import (
	"testing"
	"time"

	"liqo.io/liqo/test/scenario/story"
)

// budget is the limit for the whole suite, including the creation of the clusters, on two cores.
const budget = 6 * time.Minute

// start is how long a pod may take from its creation to Ready, on a machine that is busy with other things.
const start = 60 * time.Second

// TestStories runs all stories on one World. Each of them leaves it in the same state. To run one of them: -run TestStories/metrics.
func TestStories(t *testing.T) {
	metrics := []string{"--enable-metrics"}
	w := story.New(t, story.Plan{
		Budget: budget, Prefix: "monitoring-", Pair: true, Create: map[string][]string{"milan": {"--metrics-server"}},
		Install: map[string][]string{"rome": metrics, "milan": metrics},
	})
	d := detour(t, w)
	o := observe(t, w)
	w.Tell(t, "metrics", func(s *story.Story) { metricsAreTrue(s, o, d) })
	w.Tell(t, "quotas", func(s *story.Story) { quotas(s, o) })
	w.Tell(t, "troubles", func(s *story.Story) { troubles(s, o, d) })
	w.Tell(t, "dashboard", dashboard)
	w.Tell(t, "partition", func(s *story.Story) { partition(s, o) })
}
