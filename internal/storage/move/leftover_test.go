package move

import (
	"strings"
	"testing"

	"liqo.io/liqo/internal/storage"
)

// TestLeftoverEntryHasAWholeCure: a volume whose claim is gone is bound again only if its claimRef has no UID. The cure keeps the data in each of its steps.
func TestLeftoverEntryHasAWholeCure(t *testing.T) {
	s := bound(func(s *State) {
		s.Claim, s.Home.Annotations = nil, map[string]string{storage.AnnotationMovingClaims: "data=pvc-u1/milan"}
		s.Volumes[0].Spec.StorageClassName = "liqo"
		larger(s)
	})
	step := Next(s)
	if step.Err == nil || step.Action != Nothing {
		t.Fatalf("%+v", step)
	}
	rest := step.Err.Error()
	for _, part := range []string{
		`kubectl patch pv pvc-u1 --patch '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'`, // first, because policy Delete deletes the data
		`kubectl patch pv pvc-u1 --type merge --patch '{"spec":{"claimRef":{"uid":null,"resourceVersion":null}}}'`,
		`spec.volumeName pvc-u1, spec.storageClassName "liqo" and a request of at most 5Gi`,
	} {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Fatalf("no %q in %q of %v", part, rest, step.Err)
		}
		rest = after
	}
}
