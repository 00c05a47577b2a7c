package controllers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/storage"
)

// TestAnOlderClaimChangesNoRefusal: a decision on an older state of the claim, or on a former claim of its name, neither ends a message nor brings an older claim back.
func TestAnOlderClaimChangesNoRefusal(t *testing.T) {
	version := func(uid types.UID, version string) *corev1.PersistentVolumeClaim {
		c := classClaim("milan-a")
		c.UID, c.ResourceVersion = uid, version
		return c
	}
	records := refusalRecords{}
	records.of(version("u1", "12")).message = "no class"
	records.of(version("u1", "9"))
	records.settle(version("u1", "9"))
	records.settle(version("u0", "7"))
	records.of(version("u0", "7")).message = "of a former claim"
	records.cached(map[types.UID]*corev1.PersistentVolumeClaim{"u1": version("u1", "11")})
	if known := records["u1"]; known == nil || known.message != "no class" || known.claim.ResourceVersion != "12" {
		t.Errorf("%+v", known)
	}
	if doubtful := records.cached(map[types.UID]*corev1.PersistentVolumeClaim{"u1": version("u0", "7"), "u0": version("u0", "7")}); len(doubtful) != 1 || !doubtful["u1"] {
		t.Errorf("doubtful are %v, want u1", doubtful)
	}
	records.settle(version("u1", "12"))
	if known := records["u1"]; known == nil || known.message != "" {
		t.Errorf("settled: %+v", known)
	}
}

// TestEachPodHasOneReporter: of the virtual kubelets of a provider, one that decides about claims and one that does not, exactly one reports to a pod that waits on a
// virtual node of the provider, and none to other pods.
func TestEachPodHasOneReporter(t *testing.T) {
	nodes := []string{"milan-a", "milan-b"}
	for _, left := range []bool{true, false} {
		for selected, want := range map[string]map[string]int{
			"milan-b": {"milan-a": 1, "milan-b": 1, "": 1, "n1": 0},
			"n1":      {"milan-a": 1, "milan-b": 1, "": 0, "n1": 0},
			"":        {"milan-a": 1, "milan-b": 1, "": 0, "n1": 0},
		} {
			claim := classClaim(selected)
			for node, want := range want {
				reporters := 0
				for _, own := range nodes {
					to := audience{
						hasNode: func(name string) bool { return strings.HasPrefix(name, "milan-") }, node: own,
						decides:    func(*corev1.PersistentVolumeClaim) bool { return own == "milan-a" },
						leftToPods: func(*corev1.PersistentVolumeClaim) bool { return left },
					}
					if to.hasPod(user("web", node), claim, to.of(claim)) {
						reporters++
					}
				}
				if reporters != want {
					t.Errorf("left to pods %t, node %q selected: %d virtual kubelets report to a pod on node %q, want %d", left, selected, reporters, node, want)
				}
			}
		}
	}
}

// TestAMovedClaimIsProvidedByItsCopy: a claim may have a second volume ahead of a move, in the provider.
func TestAMovedClaimIsProvidedByItsCopy(t *testing.T) {
	records, claim := refusalRecords{}, classClaim("n1")
	claim.Spec.VolumeName = "pvc-u1"
	claim.Annotations[storage.AnnotationAhead] = storage.AheadOf("milan-a", "u2")
	records.of(claim).driverWarning = "no disk is left"
	if records.provided("u3"); records["u1"].driverWarning == "" {
		t.Error("the volume of another claim ended the Warning")
	}
	if records.provided("u2"); records["u1"].driverWarning != "" {
		t.Error("the volume is there, and the Warning stays")
	}
}
