package main

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestClaimsAreComparedByTheirMedians: one slow round does not change the result.
func TestClaimsAreComparedByTheirMedians(t *testing.T) {
	for _, row := range []struct {
		offloaded float64
		reached   bool
	}{{3.39, true}, {3.41, false}} {
		r := &ClaimResult{}
		for _, seconds := range []float64{9, row.offloaded, 1, row.offloaded, row.offloaded} {
			r.Rounds = append(r.Rounds, ClaimRound{Kind: Offloaded, Seconds: seconds})
		}
		for _, seconds := range []float64{2, 2, 1, 9, 2} {
			r.Rounds = append(r.Rounds, ClaimRound{Kind: Direct, Seconds: seconds})
		}
		if r.conclude(); r.Offloaded != row.offloaded || r.Direct != 2 || r.Reached != row.reached {
			t.Errorf("%+v", r)
		}
	}
}

// TestStepsAreThoseOfTheRound: each step has the time of its first observation, even if that was before the round knew its claim and pod. The last step ends
// the round. Late changes of objects of an earlier round are ignored, whatever their names are.
func TestStepsAreThoseOfTheRound(t *testing.T) {
	s := &steps{ended: make(chan struct{})}
	second := int64(100)
	observe := func(name string, uid, of types.UID) {
		second++
		s.observe(name, uid, of, time.Unix(second, 0))
	}
	observe("a volume exists", "old volume", "old claim")
	observe("a claim exists", "claim", "claim")
	s.start("claim", "pod")
	observe("a claim exists", "claim", "claim")
	observe(running, "old pod", "old pod")
	observe("a volume exists in the provider", "volume there", "claim there") // its claim is observed later
	observe("a claim exists in the provider", "claim there", "claim")
	observe("a volume exists", "volume", "claim")
	select {
	case <-s.ended:
		t.Fatal("a pod of an earlier round ended this one")
	default:
	}
	observe(running, "pod", "pod")
	observe(running, "pod", "pod")
	observe("a pod exists", "pod", "pod")
	<-s.ended
	want := []ClaimStep{{"a claim exists", 2}, {"a volume exists in the provider", 5}, {"a claim exists in the provider", 6}, {"a volume exists", 7}, {running, 8}}
	if got := s.since(time.Unix(100, 0)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
