package moving

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/storage/move"
)

// TestMoveVolumeWaitsForTheNodeWithTheData: a node of this cluster with the only data fails after the command began. The command does not replace the claim, and
// names the node. It goes on if the node returns, also while the command waits.
func TestMoveVolumeWaitsForTheNodeWithTheData(t *testing.T) {
	whole := newMovedWorld(t)
	whole.must(whole.run("milan", 0, nil))
	replaced := func(w *movedWorld) bool {
		claim := &corev1.PersistentVolumeClaim{}
		err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "data"}, claim)
		return err != nil || claim.UID != "u1" || claim.DeletionTimestamp != nil
	}
	for after := range whole.writes {
		w := newMovedWorld(t)
		failed, late := false, false // late: the claim was replaced before the node failed
		w.down = func() bool {
			if w.writes >= after && !failed {
				failed, late = true, replaced(w)
			}
			return failed
		}
		err := w.run("milan", 0, func(*move.Request) { w.timeout = 30 * time.Second })
		if late {
			break
		}
		switch {
		case replaced(w):
			t.Errorf("the node fails after %d writes: the claim was replaced, %v", after, err)
			continue
		case err == nil || !strings.Contains(err.Error(), "nodes rome-1, which have the data of PersistentVolume pvc-u1, are not Ready"):
			t.Errorf("the node fails after %d writes: %v", after, err)
		}
		reads := 0
		w.down = func() bool { reads++; return reads > 3 && reads < 30 }
		w.must(w.run("milan", 0, nil))
		w.at("milan", 1)
	}
}
