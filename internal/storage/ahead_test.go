package storage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestAVolumeAheadOfItsClaim: a bound claim gets a second volume on another node, which is kept and bound to nobody. The claim keeps its own node and volume.
// Without the annotation, a backing claim without a volume is deleted.
func TestAVolumeAheadOfItsClaim(t *testing.T) {
	for target, place := range map[string]Place{"n2": here(), "milan": there()} {
		bound := claim("n1", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeName, c.Annotations[AnnotationAhead] = "pvc-u1", AheadOf(target, "u2")
		})
		s := State{UID: "u2", Claim: bound, Classes: classes(), Node: node(SelectedNode(bound, "u2")), Place: place}
		if s.Node.Name != target || SelectedNode(bound, "u1") != "n1" || len(UIDs(bound)) != 2 || UIDs(bound)[1] != "u2" {
			t.Fatalf("%s is selected, UIDs %v", s.Node.Name, UIDs(bound))
		}
		s.Backing = created(t, s)
		if name := map[string]string{"n2": "u2", "milan": claimName}[target]; s.Backing.Name != name || BackingUID(s.Backing) != "u2" {
			t.Errorf("%s: %+v", target, s.Backing.ObjectMeta)
		}
		s.Backing.Status.Phase, s.Backing.Spec.VolumeName = corev1.ClaimBound, "real"
		s.BackingVolume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "real"}}
		step := Next(s)
		volume, ok := step.Object.(*corev1.PersistentVolume)
		if step.Action != CreateVolume || !ok {
			t.Fatalf("%s: %s: %s", target, step.Action, step.Why)
		}
		if volume.Name != "pvc-u2" || volume.Spec.ClaimRef.UID != types.UID("u2") || volume.Spec.ClaimRef.Name != claimName ||
			volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
			t.Errorf("%s: %+v", target, volume)
		}
		kept := s
		kept.Volume, kept.Claim = volume, nil // no claim has the UID that the volume is reserved for
		if kept.Volume.Status.Phase = corev1.VolumeReleased; Next(kept).Action != Nothing {
			t.Errorf("%s: %s: %s", target, Next(kept).Action, Next(kept).Why)
		}
		s.Claim = nil
		if step := Next(s); step.Action != DeleteBacking {
			t.Errorf("%s, given up: %s: %s", target, step.Action, step.Why)
		}
	}
}

// TestARefusedNodeAheadOfTheClaim: the claim learns that the driver refused the node, and keeps its own.
func TestARefusedNodeAheadOfTheClaim(t *testing.T) {
	bound := claim("n1", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Annotations[AnnotationAhead], c.ResourceVersion = "pvc-u1", AheadOf("n2", "u2"), "5"
	})
	s := State{UID: "u2", Claim: bound, Classes: classes(), Node: node("n2"), Place: here()}
	s.Backing = created(t, s)
	annotate(&s.Backing.ObjectMeta, AnnotationSelectedNode, "") // the driver's refusal
	step := Next(s)
	s.Backing, _ = step.Object.(*corev1.PersistentVolumeClaim)
	step = Next(s)
	next, ok := step.Object.(*corev1.PersistentVolumeClaim)
	if step.Action != PatchClaim || !ok || SelectedNode(next, "u2") != "" || SelectedNode(next, "u1") != "n1" || len(UIDs(next)) != 2 {
		t.Fatalf("%+v", step)
	}
	if s.Claim, s.Node = next, nil; Next(s).Action != Nothing {
		t.Errorf("%+v", Next(s))
	}
}

// TestOwns: a claim owns the UID of AnnotationAhead only if the record of a move in its own virtual volume names it. Otherwise, whoever may write claims could
// name the UID of another claim, or have volumes made that no quota counts.
func TestOwns(t *testing.T) {
	record := `{"claim":"u1","node":"n2","live":{"uid":"u2"}}`
	for name, row := range map[string]struct {
		change func(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume)
		uid    types.UID
		want   bool
	}{
		"its own":               {nil, "u1", true},
		"the one of the record": {nil, "u2", true},
		"another":               {nil, "u3", false},
		"none":                  {nil, "", false},
		"refused": {func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			c.Annotations[AnnotationAhead] += "/refused"
		}, "u2", true},
		"another node": {func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			c.Annotations[AnnotationAhead] = "n3/u2"
		}, "u2", false},
		"a UID that no record names": {func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			c.Annotations[AnnotationAhead] = "n2/u3"
		}, "u3", false},
		"no record": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Annotations = nil }, "u2", false},
		"a record of a move that is not live": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			v.Annotations[AnnotationMove] = `{"claim":"u1","node":"n2"}`
		}, "u2", false},
		"the volume of another claim": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "u9" }, "u2", false},
		"another volume":              {func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) { c.Spec.VolumeName = "pvc-u9" }, "u2", false},
		"a volume that Liqo did not create": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			v.Annotations[annotationProvisionedBy] = "example.org/disk"
		}, "u2", false},
	} {
		bound := claim("n1", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeName, c.Annotations[AnnotationAhead] = "pvc-u1", AheadOf("n2", "u2")
		})
		volume := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pvc-u1", Annotations: map[string]string{annotationProvisionedBy: Provisioner, AnnotationMove: record}},
			Spec:       corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: bound.Namespace, Name: bound.Name, UID: bound.UID}},
		}
		if row.change != nil {
			row.change(bound, volume)
		}
		if got := Owns(bound, volume, row.uid); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
		if Owns(bound, nil, row.uid) != (row.uid == bound.UID) {
			t.Errorf("%s, without a volume", name)
		}
	}
}
