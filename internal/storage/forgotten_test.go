package storage

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
)

// TestForgottenDataIsKept: a bound backing claim may have data also if its claim and its virtual volume are unknown: they were created after the backup from which
// this cluster was restored, or an administrator has removed them. It is retained, except for one in this cluster that was never in use since it was created. One without a volume has no data, and a copy by a move is not the only one: both are deleted.
func TestForgottenDataIsKept(t *testing.T) {
	move := func(c *corev1.PersistentVolumeClaim) { c.Annotations[AnnotationMove] = "pvc-u0" }
	for name, row := range map[string]struct {
		place       Place
		node, other string
		claim       *corev1.PersistentVolumeClaim
		volume      string // of the backing claim
		used        bool   // its virtual volume was bound
		want        Action
	}{
		"with a volume":            {there(), "milan", "n1", claim("milan"), "disk-7", false, PatchBacking},
		"without a volume":         {there(), "milan", "n1", claim("milan"), "", false, DeleteBacking},
		"the copy of a move":       {there(), "milan", "n1", claim("milan", move), "disk-7", false, DeleteBacking},
		"here, in use":             {here(), "n1", "milan", claim("n1"), "disk-7", true, PatchBacking},
		"here, never in use":       {here(), "n1", "milan", claim("n1"), "disk-7", false, DeleteBacking},
		"here, the copy of a move": {here(), "n1", "milan", claim("n1", move), "disk-7", false, DeleteBacking},
	} {
		s := at(row.place, row.claim)
		s.Node = node(row.node)
		s.Backing = created(t, s)
		s.Backing.Spec.VolumeName = row.volume
		if row.used {
			_, volume := bound("")
			use := s
			use.Volume, use.Claim = volume, row.claim.DeepCopy()
			use.Claim.Spec.VolumeName = volume.Name
			step := Next(use)
			used, ok := step.Object.(*corev1.PersistentVolumeClaim)
			if step.Action != PatchBacking || !ok || used.Annotations[AnnotationRetained] != "" {
				t.Fatalf("%s: %+v", name, step)
			}
			s.Backing = used
		}
		selected := s
		selected.Node = node(row.other) // the scheduler chose again
		s.Claim = nil
		for what, state := range map[string]State{"the claim is unknown": s, "another cluster is selected": selected} {
			step := Next(state)
			if step.Action != row.want || !step.Confirm {
				t.Errorf("%s, %s: %+v", name, what, step)
			}
			if kept, ok := step.Object.(*corev1.PersistentVolumeClaim); row.want == PatchBacking && (!ok || kept.Annotations[AnnotationRetained] != api.True) {
				t.Errorf("%s, %s: it is not marked: %+v", name, what, step.Object)
			}
		}
	}
	// Once the virtual volume of a copy is bound, that volume decides about the data. What is retained stays so.
	for mark, want := range map[string]Action{retainedCopy: PatchBacking, api.True: Nothing} {
		c, volume := bound("milan")
		s := at(there(), c)
		s.Volume, s.Backing = volume, created(t, at(there(), claim("milan")))
		s.Backing.Spec.VolumeName = "disk-7"
		annotate(&s.Backing.ObjectMeta, AnnotationRetained, mark)
		step := Next(s)
		if step.Action != want {
			t.Fatalf("mark %s: %+v", mark, step)
		}
		if used, ok := step.Object.(*corev1.PersistentVolumeClaim); ok {
			if s.Backing = used; used.Annotations[AnnotationRetained] != "" || Next(s).Action != Nothing {
				t.Errorf("mark %s is not removed: %+v", mark, Next(s))
			}
		}
	}
}

// TestReservedVolumesKeepTheirData: an administrator reserves a retained volume of this cluster for the next claim of its name, which it does not fit, and then
// deletes the volume. Its data is retained.
func TestReservedVolumesKeepTheirData(t *testing.T) {
	s := at(here(), claim("n1"))
	s.Backing = created(t, s)
	s.Backing.Spec.VolumeName, s.Backing.Status.Phase = "disk-7", corev1.ClaimBound
	_, s.Volume = bound("")
	s.Volume.Finalizers = []string{Finalizer}
	s.Volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	s.Volume.Spec.ClaimRef.UID, s.Volume.Status.Phase, s.Volume.DeletionTimestamp = "", corev1.VolumeAvailable, &metav1.Time{}
	s.Claim = claim("n1")
	s.Claim.UID = "u2"
	step := Next(s)
	kept, ok := step.Object.(*corev1.PersistentVolumeClaim)
	if step.Action != PatchBacking || !ok || kept.Annotations[AnnotationRetained] != api.True {
		t.Fatalf("the data is not retained first: %+v", step)
	}
	s.Backing = kept
	if step = Next(s); step.Action != PatchVolume {
		t.Fatalf("%+v", step)
	}
	s.Volume, s.Claim = nil, nil
	if step = Next(s); step.Action != Nothing {
		t.Errorf("the data is deleted after its volume: %+v", step)
	}
}

// TestNoEmptyVolumeDuringAMove: while the move of the data of a claim is unfinished, a new claim of its name that liqoctl did not create gets no volume, also if no
// policy refused that claim.
func TestNoEmptyVolumeDuringAMove(t *testing.T) {
	record := func(name string, copied types.UID) []*corev1.PersistentVolume {
		_, volume := bound("turin")
		annotate(&volume.ObjectMeta, AnnotationMove, `{"node":"milan","copy":"`+string(copied)+`"}`)
		volume.Spec.ClaimRef.Name = name
		return []*corev1.PersistentVolume{volume}
	}
	for name, place := range map[string]Place{"n1": here(), "milan": there()} {
		s := at(place, claim(name))
		s.Moving = Moving(record(claimName, "earlier"), s.Claim)
		step := Next(s)
		if s.Moving == "" || step.Action != Nothing || !strings.Contains(step.Refused, "is in PersistentVolume "+s.Moving+", and its move to another node is unfinished") {
			t.Errorf("%s: %+v", name, step)
		}
		annotate(&s.Claim.ObjectMeta, AnnotationMove, s.Moving)
		if step = Next(s); step.Action != CreateBacking {
			t.Errorf("%s: the claim of the move: %+v", name, step)
		}
		s = at(place, claim(name))
		s.Moving = Moving(record("other", ""), s.Claim)
		if step = Next(s); s.Moving != "" || step.Action != CreateBacking {
			t.Errorf("%s: the move of another claim: %+v", name, step)
		}
		if s.Moving = Moving(record(claimName, s.Claim.UID), s.Claim); s.Moving != "" {
			t.Errorf("%s: the claim with the copy waits for the old data to be released", name)
		}
	}
}

// TestStorageIsKeptForNobody: a user stops the creation of the virtual volume before the backing claim is bound, then has it bound, and deletes the claim. Nothing of
// that may stay, since no quota of the namespace counts it.
func TestStorageIsKeptForNobody(t *testing.T) {
	for name, stop := range map[string]func(*corev1.PersistentVolumeClaim){
		"a move that nobody began": func(c *corev1.PersistentVolumeClaim) { annotate(&c.ObjectMeta, AnnotationMove, "x") },
		"a finalizer": func(c *corev1.PersistentVolumeClaim) {
			c.Finalizers, c.DeletionTimestamp = []string{"example.com/mine"}, &metav1.Time{}
		},
	} {
		s := at(there(), claim("milan"))
		s.Node = node("milan")
		s.Backing = created(t, s)
		stop(s.Claim)
		step := Next(s)
		marked, ok := step.Object.(*corev1.PersistentVolumeClaim)
		if step.Action != PatchBacking || !step.Confirm || !ok {
			t.Fatalf("%s: %+v", name, step)
		}
		if s.Backing = marked; Next(s).Action != Nothing {
			t.Errorf("%s: it is marked again: %+v", name, Next(s))
		}
		s.Backing.Spec.VolumeName = "disk-7"
		if s.Claim = nil; Next(s).Action != DeleteBacking {
			t.Errorf("%s: %+v", name, Next(s))
		}
	}
}
