package story

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// TestDiscoveryWithoutMetrics: a snapshot succeeds without a response of the metrics server, but not if another API group is missing.
func TestDiscoveryWithoutMetrics(t *testing.T) {
	stale := errors.New("stale GroupVersion discovery")
	metrics, other := schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1beta1"}, schema.GroupVersion{Group: "example.com", Version: "v1"}
	for name, row := range map[string]struct {
		err    error
		passes bool
	}{
		"all there":     {nil, true},
		"metrics":       {&discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{metrics: stale}}, true},
		"another group": {&discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{metrics: stale, other: stale}}, false},
		"no answer":     {errors.New("connection refused"), false},
	} {
		if err := withoutMeasured(row.err); (err == nil) != row.passes {
			t.Errorf("%s: %v", name, err)
		}
	}
}
