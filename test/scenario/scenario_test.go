package scenario

import (
	"testing"
	"time"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// budget is the limit for the whole suite, including the creation of the clusters, on two cores.
const budget = 20 * time.Minute

// TestStories runs all stories on one World. Each of them leaves it in the same state. To run one of them: -run TestStories/partition.
func TestStories(t *testing.T) {
	// The network is tested in the folder network.
	alone := []string{playground.WithoutNetwork}
	measured := []string{"--metrics-server"}
	offers := []string{"--set", "offloading.ingressPolicy.hosts={*.example}", "--set", "offloading.podPolicy.storageClasses={" + sharedClass + "}"}
	w := story.New(t, story.Plan{
		Budget: budget, Prefix: "scenario-", Create: map[string][]string{"rome": measured, "milan": measured},
		Install: map[string][]string{"milan": offers, "naples": offers}, Peer: map[string][]string{"milan": alone, "naples": alone},
	})
	// The longest ones first.
	w.TellTogether(t, story.Named{Name: "autoscale", Body: autoscale}, story.Named{Name: "pods", Body: pods}, story.Named{Name: "namespaces", Body: namespaces},
		story.Named{Name: "claims", Body: claims}, story.Named{Name: "data", Body: data}, story.Named{Name: "delete", Body: deleteBothWays},
		story.Named{Name: "look", Body: look}, story.Named{Name: "copies", Body: copies})
	w.Tell(t, "cordon", cordon)
	w.Tell(t, "quota", quota)
	w.Tell(t, "sharing", sharing)
	w.Tell(t, "peer", peerAgain)
	w.Tell(t, "upgrade", upgrade)
	w.Tell(t, "partition", partition)
	w.Tell(t, "crash", crash)
	w.Tell(t, "both", bothWays)
	w.Tell(t, "power", power)
	w.Tell(t, "loss", loss)
	w.Tell(t, "renewal", renewal)
	w.Tell(t, "gone", gone)
	w.Tell(t, "leave", leave)
}
