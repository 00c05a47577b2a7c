package storage

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
)

// TestRetainedDataHoldsItsVolume: the virtual volume is the only record that the remote namespace has data. So a retained volume of a provider that is deleted
// stays until its data is gone, or cannot be reached any more. The namespace of backing claims in this cluster stays anyway, so there the volume is released.
func TestRetainedDataHoldsItsVolume(t *testing.T) {
	nothing := func(*State) {}
	for name, c := range map[string]struct {
		place  Place
		change func(*State)
		want   []Action
	}{
		"in a provider": {there(), nothing, []Action{Nothing}},
		"marked by an earlier release": {there(), func(s *State) { annotate(&s.Backing.ObjectMeta, AnnotationRetained, api.True) },
			[]Action{PatchBacking, Nothing}},
		"the data is deleted there":   {there(), func(s *State) { s.Backing = nil }, []Action{PatchVolume, Nothing}},
		"a claim of somebody else":    {there(), func(s *State) { s.Backing.Labels[api.LabelOrigin] = "turin" }, []Action{PatchVolume, Nothing}},
		"the provider is unreachable": {there(), func(s *State) { s.Place.Waiting, s.Backing = "unreachable", nil }, []Action{Nothing}},
		"the user gives it up": {there(), func(s *State) {
			s.Volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		}, []Action{DeleteBacking, PatchVolume, Nothing}},
		"of a former provider": {here(), func(s *State) { s.Abandoned = true }, []Action{PatchVolume, Nothing}},
		"in this cluster": {here(), func(s *State) {
			s.Backing = created(t, at(here(), claim("n1")))
			place(s.Volume, "")
		}, []Action{PatchBacking, PatchVolume, Nothing}},
	} {
		t.Run(name, func(t *testing.T) {
			_, volume := bound("milan")
			s := at(c.place, claim("milan"))
			s.Claim, s.Backing = nil, created(t, at(there(), claim("milan")))
			s.Backing.Spec.VolumeName = "disk-7"
			s.Volume, volume.Finalizers = volume, []string{Finalizer}
			s.Volume.Status.Phase, s.Volume.DeletionTimestamp = corev1.VolumeReleased, &metav1.Time{}
			s.Volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			c.change(&s)
			var got []Action
			for range len(c.want) {
				step := Next(s)
				got = append(got, step.Action)
				switch object := step.Object.(type) {
				case *corev1.PersistentVolumeClaim:
					if s.Backing = object.DeepCopy(); step.Action == DeleteBacking {
						s.Backing = nil
					}
				case *corev1.PersistentVolume:
					s.Volume = object
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// TestRetained: the volume of a deleted claim keeps its data in a provider, also while an administrator deletes the volume.
func TestRetained(t *testing.T) {
	source := func(record, of string) []corev1.PersistentVolume {
		_, volume := bound("turin")
		annotate(&volume.ObjectMeta, AnnotationMove, record)
		volume.Spec.ClaimRef.Name = of
		return []corev1.PersistentVolume{*volume}
	}
	for name, c := range map[string]struct {
		change func(*corev1.PersistentVolume)
		want   bool
		others []corev1.PersistentVolume
	}{
		"released":             {func(*corev1.PersistentVolume) {}, true, nil},
		"deleted by hand":      {func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{} }, true, nil},
		"made available":       {func(v *corev1.PersistentVolume) { v.Spec.ClaimRef, v.Status.Phase = nil, corev1.VolumeAvailable }, true, nil},
		"reserved for a claim": {func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID, v.Status.Phase = "", corev1.VolumeAvailable }, true, nil},
		"bound":                {func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }, false, nil},
		"to be deleted": {func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		}, false, nil},
		"in this cluster":               {func(v *corev1.PersistentVolume) { place(v, "") }, false, nil},
		"its data is moved":             {func(v *corev1.PersistentVolume) { annotate(&v.ObjectMeta, AnnotationMove, "{}") }, false, nil},
		"not created by Liqo":           {func(v *corev1.PersistentVolume) { v.Annotations = nil }, false, nil},
		"ephemeral":                     {func(v *corev1.PersistentVolume) { annotate(&v.ObjectMeta, annotationEphemeral, api.True) }, false, nil},
		"the new volume of a live move": {func(*corev1.PersistentVolume) {}, false, source(`{"live":{"uid":"`+string(claim("").UID)+`"}}`, claim("").Name)},
		"another live move":             {func(*corev1.PersistentVolume) {}, true, source(`{"live":{"uid":"other"}}`, claim("").Name)},
		"perhaps in a move":             {func(*corev1.PersistentVolume) {}, false, source("unreadable", claim("").Name)},
		"a move of another claim":       {func(*corev1.PersistentVolume) {}, true, source("unreadable", "other")},
	} {
		_, volume := bound("milan")
		volume.Status.Phase, volume.Spec.PersistentVolumeReclaimPolicy = corev1.VolumeReleased, corev1.PersistentVolumeReclaimRetain
		if c.change(volume); Retained(volume, c.others) != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
}

// TestRetainedVolumesAreClaimedAgain: a user removes the claimRef of a retained volume and creates a claim with its name in spec.volumeName, as for any volume of
// Kubernetes. Nothing that happens meanwhile deletes the data in the provider.
func TestRetainedVolumesAreClaimedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		claim  string // of the name of the new claim, empty if there is none
		phase  corev1.PersistentVolumePhase
		change func(*State)
		want   Action
		says   []string
	}{
		"no claim yet":            {"", corev1.VolumeAvailable, nil, Nothing, nil},
		"no claim, policy Delete": {"", corev1.VolumeAvailable, func(s *State) { s.Volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete }, Nothing, nil},
		"deleted without a claim": {"", corev1.VolumeAvailable, func(s *State) { s.Volume.DeletionTimestamp = &metav1.Time{} }, Nothing, nil},
		"the same name":           {claimName, corev1.VolumeBound, nil, Nothing, nil},
		"another name":            {"other", corev1.VolumeBound, func(s *State) { s.Backing = nil }, Nothing, []string{"must be " + claimName + " in namespace shop", "to Retain"}},
		"another name, elsewhere": {"other", corev1.VolumeBound, func(s *State) { s.Claim = nil }, Nothing, nil},
		"another name, is deleted": {"other", corev1.VolumeBound, func(s *State) {
			s.Claim, s.Volume.DeletionTimestamp, s.Volume.Spec.PersistentVolumeReclaimPolicy = nil, &metav1.Time{}, corev1.PersistentVolumeReclaimDelete
		}, Nothing, nil},
		"given up without a claim": {"", corev1.VolumeAvailable, func(s *State) {
			s.Volume.DeletionTimestamp, s.Volume.Spec.PersistentVolumeReclaimPolicy = &metav1.Time{}, corev1.PersistentVolumeReclaimDelete
		}, DeleteBacking, nil},
		"another name, given up": {"other", corev1.VolumeReleased, func(s *State) {
			s.Claim, s.Volume.Spec.PersistentVolumeReclaimPolicy = nil, corev1.PersistentVolumeReclaimDelete
		}, DeleteBacking, nil},
	} {
		s := at(there(), claim("milan"))
		s.Backing = created(t, s)
		s.Backing.Spec.VolumeName, s.Backing.Status.Phase = "disk-7", corev1.ClaimBound
		_, s.Volume = bound("milan")
		annotate(&s.Volume.ObjectMeta, annotationDataOf, "shop/"+claimName)
		s.Volume.Finalizers, s.Volume.Status.Phase, s.Volume.Spec.PersistentVolumeReclaimPolicy = []string{Finalizer}, c.phase, corev1.PersistentVolumeReclaimRetain
		s.Claim, s.Volume.Spec.ClaimRef = nil, nil
		if c.claim != "" {
			s.Claim = claim("milan", func(c *corev1.PersistentVolumeClaim) { c.UID, c.Spec.VolumeName = "u2", s.Volume.Name })
			s.Claim.Name = c.claim
			s.Volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: c.claim, UID: "u2"}
		}
		if c.change != nil {
			c.change(&s)
		}
		step := Next(s)
		if step.Action != c.want || (step.Refused != "") != (c.says != nil) {
			t.Errorf("%s: %s: %s, refused: %q", name, step.Action, step.Why, step.Refused)
		}
		for _, text := range c.says {
			if !strings.Contains(step.Refused, text) {
				t.Errorf("%s: %q does not say %q", name, step.Refused, text)
			}
		}
	}
}
