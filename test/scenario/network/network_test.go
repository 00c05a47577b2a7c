package network

import (
	"testing"
	"time"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// budget is the limit for the whole suite, including the creation of the clusters, on two cores.
const budget = 20 * time.Minute

// TestStories runs all stories on one World. Each of them leaves it in the same state. To run one of them: -run TestStories/matrix.
func TestStories(t *testing.T) {
	pairs := []string{"--set", "networking.gatewayTemplates.replicas=2"}
	// Pods of consumers on failed nodes are replaced. Two replicas of the controller manager make sure of that even if one of them was on the failed node.
	forgetting := append(pairs, "--set", "controllerManager.replicas=2,controllerManager.config.enableNodeFailureController=true")
	w := story.New(t, story.Plan{
		Budget: budget,
		Prefix: "network-",
		Images: []string{playground.VolumeMover},
		Create: map[string][]string{
			"rome":   {"--nodes", "2"},
			"milan":  {"--nodes", "2"},
			"naples": {"--nodes", "2", "--pod-cidr", "10.30.0.0/16", "--service-cidr", "10.31.0.0/16", "--cni", "bridge"},
		},
		Install: map[string][]string{"rome": {"--enable-ha"}, "milan": forgetting, "naples": append(pairs, "--set", "ipam.externalCIDR=10.60.0.0/16")},
		Peer:    map[string][]string{"naples": {"--gw-server-service-type", "NodePort"}},
	})
	before, err := w.Wiring(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Tell(t, "matrix", matrix)
	w.Tell(t, "agents", agents)
	w.Tell(t, "failover", failover)
	w.Tell(t, "power", power)
	w.Tell(t, "leaders", leaders)
	w.Tell(t, "partition", partition)
	w.Tell(t, "nodes", nodes)
	w.Tell(t, "keys", keys)
	w.Tell(t, "nat", nat)
	w.Tell(t, "move", move)
	w.Tell(t, "live", liveMove)
	w.Tell(t, "command", command)
	w.Tell(t, "disconnect", disconnect)
	w.Tell(t, "leave", func(s *story.Story) { leave(s, before) })
	// The remaining stories run on clusters without Liqo's network.
	disabled := []string{"--set", "networking.enabled=false"}
	w.Plan.Install, w.Plan.Peer = map[string][]string{"rome": disabled, "milan": disabled, "naples": disabled}, nil
	w.Tell(t, "without", without)
	w.Tell(t, "addressless", addressless)
}
