package doors

import (
	"testing"
	"time"

	"liqo.io/liqo/test/scenario/story"
)

// budget is the limit for the whole suite, including the creation of the clusters, on two cores.
const budget = 13 * time.Minute

// TestStories runs all stories on one World. Each of them leaves it in the same state. To run one of them: -run TestStories/outofband.
func TestStories(t *testing.T) {
	w := story.New(t, story.Plan{
		Budget: budget, Prefix: "doors-", Strangers: true,
		// Naples signs no client certificates, like a cluster of EKS, so consumers use tokens.
		Create:  map[string][]string{"naples": {"--no-client-signer"}},
		Install: map[string][]string{"naples": {"--set", "authentication.identity=token,authentication.tokenLifetime=" + tokenLife.String()}},
	})
	w.TellBefore(t, "installers", twoInstallers)
	w.Tell(t, "outofband", outOfBand)
	w.Tell(t, "wish", wish)
	w.Tell(t, "inband", inBand)
	w.Tell(t, "user", peeringUser)
	w.Tell(t, "router", behindRouter)
	w.Tell(t, "consumers", twoConsumers)
	w.Tell(t, "tokens", tokens)
	w.Tell(t, "terraform", terraform)
}
