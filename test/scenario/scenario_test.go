package scenario

import (
	"testing"
	"time"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// budget is for everything, clusters included, on two cores.
const budget = 20 * time.Minute

// TestStories tells all stories on one world, each of which leaves it as it was. One of them alone: -run TestStories/partition.
func TestStories(t *testing.T) {
	// The network has stories of its own, in the folder below.
	alone := []string{playground.WithoutNetwork}
	measured := []string{"--metrics-server"}
	hosts := []string{"--set", "offloading.ingressPolicy.hosts={*.example}"}
	w := story.New(t, story.Plan{
		Budget: budget, Prefix: "scenario-", Create: map[string][]string{"rome": measured, "milan": measured},
		Install: map[string][]string{"milan": hosts, "naples": hosts}, Peer: map[string][]string{"milan": alone, "naples": alone},
	})
	w.TellTogether(t, story.Named{Name: "look", Body: look}, story.Named{Name: "delete", Body: deleteBothWays}, story.Named{Name: "namespaces", Body: namespaces},
		story.Named{Name: "copies", Body: copies}, story.Named{Name: "pods", Body: pods}, story.Named{Name: "data", Body: data})
	w.Tell(t, "cordon", cordon)
	w.Tell(t, "quota", quota)
	w.Tell(t, "sharing", sharing)
	w.Tell(t, "peer", peerAgain)
	w.Tell(t, "upgrade", upgrade)
	w.Tell(t, "partition", partition)
	w.Tell(t, "crash", crash)
	w.Tell(t, "both", bothWays)
	w.Tell(t, "power", power)
	w.Tell(t, "renewal", renewal)
	w.Tell(t, "gone", gone)
	w.Tell(t, "leave", leave)
}
