package doors

import (
	"testing"
	"time"

	"liqo.io/liqo/test/scenario/story"
)

// budget is for everything, clusters included, on two cores.
const budget = 10 * time.Minute

// TestStories tells all stories on one world, each of which leaves it as it was. One of them alone: -run TestStories/outofband.
func TestStories(t *testing.T) {
	w := story.New(t, story.Plan{Budget: budget, Prefix: "doors-", Strangers: true})
	w.Tell(t, "outofband", outOfBand)
	w.Tell(t, "wish", wish)
	w.Tell(t, "inband", inBand)
	w.Tell(t, "user", peeringUser)
	w.Tell(t, "router", behindRouter)
	w.Tell(t, "consumers", twoConsumers)
}
