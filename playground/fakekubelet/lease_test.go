package fakekubelet

import (
	"errors"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
)

// TestLeaseSurvivesAnOutage: after an outage of the API server, the next renewal reads the lease again. An update without a resource version would be
// rejected for ever.
func TestLeaseSurvivesAnOutage(t *testing.T) {
	client := fake.NewClientset()
	down := false
	client.PrependReactor("update", "leases", func(action kubetesting.Action) (bool, runtime.Object, error) {
		switch lease := action.(kubetesting.UpdateAction).GetObject().(*coordinationv1.Lease); {
		case down:
			return true, &coordinationv1.Lease{}, errors.New("connection refused")
		case lease.ResourceVersion == "":
			return true, nil, errors.New("metadata.resourceVersion: must be specified for an update")
		}
		return false, nil, nil
	})
	client.PrependReactor("create", "leases", func(action kubetesting.Action) (bool, runtime.Object, error) {
		action.(kubetesting.CreateAction).GetObject().(*coordinationv1.Lease).ResourceVersion = "1" // as an API server does
		return false, nil, nil
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "fake-0"}}
	n := newNodes(client, Config{}, "v1.35.0")
	for _, step := range []struct {
		down, fails bool
	}{{false, false}, {false, false}, {true, true}, {false, false}} {
		down = step.down
		if err := n.renew(t.Context(), node); (err != nil) != step.fails {
			t.Fatalf("API server down %t: %v", step.down, err)
		}
	}
}
