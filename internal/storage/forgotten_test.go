package storage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
)

// TestForgottenDataIsKept: a bound backing claim in a provider may have data also if its claim and its virtual volume are unknown: they were created after the backup
// from which this cluster was restored. It is retained. One without a volume has no data, and a copy by a move is not the only one: both are deleted.
func TestForgottenDataIsKept(t *testing.T) {
	move := func(c *corev1.PersistentVolumeClaim) { c.Annotations[AnnotationMove] = "pvc-u0" }
	for name, row := range map[string]struct {
		claim  *corev1.PersistentVolumeClaim
		volume string // of the backing claim
		want   Action
	}{
		"with a volume":      {claim("milan"), "disk-7", PatchBacking},
		"without a volume":   {claim("milan"), "", DeleteBacking},
		"the copy of a move": {claim("milan", move), "disk-7", DeleteBacking},
	} {
		s := at(there(), row.claim)
		s.Node = node("milan")
		s.Backing = created(t, s)
		s.Backing.Spec.VolumeName = row.volume
		selected := s
		selected.Node = node("n1") // the scheduler chose again
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
