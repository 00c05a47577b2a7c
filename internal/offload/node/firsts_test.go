package node

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestRepeatedContainersAreDropped: a provider that lists a container again and again does not decide how much memory its metrics take.
func TestRepeatedContainersAreDropped(t *testing.T) {
	of := func(pod string, bytes float64) sample {
		return sample{pod: types.NamespacedName{Namespace: "shop", Name: pod}, container: "main", bytes: bytes}
	}
	earlier, web, db := of("web", 1), of("web", 2), of("db", 3)
	got := firsts([]sample{earlier, web, of("web", 4), db, of("db", 5), of("web", 6)}, 1)
	if want := []sample{earlier, web, db}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
