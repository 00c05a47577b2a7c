package move

import (
	"testing"
)

// TestLawsOfTwoCommands has two commands move one claim at the same time, to the same node or to different ones, so that one of them cancels the move of the other.
// Each of them pauses between its reading and its writing, while the other one makes any number of steps. At every moment the data is whole where the record or the
// claim says.
func TestLawsOfTwoCommands(t *testing.T) {
	const worlds = 150
	moved, canceled, stale := 0, 0, 0
	for seed := range uint64(worlds) {
		w := newWorld(t, seed)
		before := w.claim().DeepCopy()
		requests := [2]Request{w.request(w.someNode()), w.request(w.someNode())}
		var decided [2]*Step
		for range 200 {
			i := w.r.IntN(2)
			if decided[i] == nil {
				step := Next(w.state(requests[i]))
				decided[i] = &step
				continue
			}
			step := *decided[i]
			decided[i] = nil
			w.note("command %d, --target-node %s:", i, requests[i].Node)
			if step.Phase == Returning {
				canceled++
			}
			if step.Action == Delete && w.have(step.Object) != nil && w.have(step.Object).GetResourceVersion() != step.Object.GetResourceVersion() {
				stale++
			}
			w.obey(step)
			w.safe()
			w.settle(w.r.IntN(2))
			w.safe()
			if step.Done || step.Err != nil {
				if step.Done {
					moved++
				}
				requests[i] = w.request(w.someNode())
			}
		}
		w.end()
		target := w.someNode()
		w.finishAt(target)
		w.ended(target, before)
	}
	if moved < worlds || canceled < worlds || stale < worlds/10 {
		t.Errorf("%d moves ended, %d steps of a cancellation, %d outdated deletions", moved, canceled, stale)
	}
}
