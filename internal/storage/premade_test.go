package storage

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// waiting returns the state of a claim on node n1 whose backing claim has a class without a driver.
func waiting(t *testing.T, changes ...func(*corev1.PersistentVolumeClaim)) State {
	t.Helper()
	s := at(here(), claim("n1", changes...))
	s.Classes[2].Provisioner = noProvisioner
	s.Node.Labels = map[string]string{corev1.LabelHostname: "n1"}
	s.Backing = created(t, s)
	s.Backing.UID, s.Backing.Status.Phase = "b1", corev1.ClaimPending
	return s
}

// disk returns a volume that an administrator created, and that fits the claim.
func disk(name, size string, changes ...func(*corev1.PersistentVolume)) corev1.PersistentVolume {
	mode := corev1.PersistentVolumeBlock
	v := corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "standard", Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}, VolumeMode: &mode,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	for _, change := range changes {
		change(&v)
	}
	return v
}

// only restricts a volume to one node.
func only(node string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.NodeAffinity = restricted(nil, corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}})
	}
}

// reservedFor sets the claimRef of a volume.
func reservedFor(name string, uid types.UID) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "liqo-storage", Name: name, UID: uid}
	}
}

// TestVolumesOfAnAdministrator: a class without a driver has only volumes that an administrator created. The scheduler never sees a pod with the backing claim, so
// Liqo reserves the smallest volume that fits on the selected node. Other volumes stay as they are.
func TestVolumesOfAnAdministrator(t *testing.T) {
	filesystem := corev1.PersistentVolumeFilesystem
	class := "fast"
	change := func(f func(*corev1.PersistentVolume)) []corev1.PersistentVolume {
		return []corev1.PersistentVolume{disk("a", "2Gi", f), disk("b", "5Gi", only("n1"))}
	}
	for name, row := range map[string]struct {
		volumes []corev1.PersistentVolume
		want    string
	}{
		"one":                             {[]corev1.PersistentVolume{disk("b", "5Gi", only("n1"))}, "b"},
		"the smallest":                    {[]corev1.PersistentVolume{disk("a", "5Gi"), disk("b", "1Gi"), disk("c", "2Gi")}, "b"},
		"the first of the same size":      {[]corev1.PersistentVolume{disk("c", "1Gi"), disk("b", "1Gi")}, "b"},
		"not one that is too small":       {[]corev1.PersistentVolume{disk("a", "1Mi"), disk("b", "5Gi")}, "b"},
		"not one of another class":        {change(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "fast" }), "b"},
		"not one of another mode":         {change(func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = &filesystem }), "b"},
		"not one without the access mode": {change(func(v *corev1.PersistentVolume) { v.Spec.AccessModes = v.Spec.AccessModes[:1] }), "b"},
		"not one with attributes":         {change(func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = &class }), "b"},
		"not one of another node":         {change(only("n2")), "b"},
		"not one of another claim":        {change(reservedFor("u2", "")), "b"},
		"not one with data":               {change(func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased }), "b"},
		"not one that is being deleted":   {change(func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{} }), "b"},
		"the one kept for it":             {[]corev1.PersistentVolume{disk("a", "1Gi"), disk("b", "5Gi", reservedFor("u1", ""))}, ""},
		"the one reserved for it":         {[]corev1.PersistentVolume{disk("a", "1Gi"), disk("b", "5Gi", reservedFor("u1", "b1"))}, ""},
	} {
		s := waiting(t)
		s.Volumes = row.volumes
		step := Next(s)
		if row.want == "" {
			if step.Action != Nothing || step.Refused != "" {
				t.Errorf("%s: %s: %s", name, step.Action, step.Why)
			}
			continue
		}
		volume, ok := step.Object.(*corev1.PersistentVolume)
		if step.Action != ReserveVolume || !ok || volume.Name != row.want || !step.Confirm || step.Old.GetName() != row.want {
			t.Errorf("%s: %s: %s", name, step.Action, step.Why)
			continue
		}
		if ref := volume.Spec.ClaimRef; ref.Namespace != "liqo-storage" || ref.Name != "u1" || ref.UID != "b1" || volume.Annotations[annotationBoundByController] == "" {
			t.Errorf("%s: %+v", name, volume)
		}
		if kept := slices.IndexFunc(s.Volumes, func(v corev1.PersistentVolume) bool { return v.Name == row.want }); s.Volumes[kept].Spec.ClaimRef != nil {
			t.Errorf("%s: the given volume was changed", name)
		}
	}
}

// TestNoVolumeOfAnAdministrator: if no volume fits, the claim is refused with everything that a volume needs. If one fits on another node, the scheduler selects
// that node, except for a move, which has chosen its node.
func TestNoVolumeOfAnAdministrator(t *testing.T) {
	far := disk("far", "1Gi", only("n2"))
	facts := []string{"StorageClass standard", noProvisioner, "PersistentVolumeClaim u1 in namespace liqo-storage", "node n1", "1Gi", "ReadWriteOncePod", "Block"}
	for name, row := range map[string]struct {
		volumes []corev1.PersistentVolume
		change  func(*corev1.PersistentVolumeClaim)
		want    Action
		says    []string
	}{
		"none":              {nil, nil, Nothing, append(facts, "spec.claimRef", "liqo.io/real-storage-class")},
		"too small":         {[]corev1.PersistentVolume{disk("a", "1Mi")}, nil, Nothing, facts},
		"on another node":   {[]corev1.PersistentVolume{far}, nil, PatchClaim, append(facts, "PersistentVolume far")},
		"moved to the node": {[]corev1.PersistentVolume{far}, func(c *corev1.PersistentVolumeClaim) { c.Annotations[AnnotationMove] = "pvc-u9" }, Nothing, facts},
	} {
		s := waiting(t)
		if row.change != nil {
			row.change(s.Claim)
			annotate(&s.Backing.ObjectMeta, AnnotationRetained, retainedCopy) // as for each backing claim of a move
		}
		s.Volumes = row.volumes
		step := Next(s)
		if step.Action != row.want || len(step.Refused) > 1024 {
			t.Errorf("%s: %s: %s", name, step.Action, step.Why)
		}
		for _, part := range row.says {
			if !strings.Contains(step.Refused, part) {
				t.Errorf("%s: no %q in %q", name, part, step.Refused)
			}
		}
		if next, ok := step.Object.(*corev1.PersistentVolumeClaim); step.Action == PatchClaim && (!ok || SelectedNode(next, "u1") != "") {
			t.Errorf("%s: %+v", name, step.Object)
		}
	}
}

// TestNoVolumeOfAnAdministratorAheadOfTheClaim: a live move gets the answer that a driver which refuses the node would give.
func TestNoVolumeOfAnAdministratorAheadOfTheClaim(t *testing.T) {
	bound := claim("n2", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Annotations[AnnotationAhead] = "pvc-u1", AheadOf("n1", "u2")
	})
	s := State{UID: "u2", Claim: bound, Classes: classes(), Node: node("n1"), Place: here()}
	s.Classes[2].Provisioner = noProvisioner
	s.Backing = created(t, s)
	step := Next(s)
	if next, ok := step.Object.(*corev1.PersistentVolumeClaim); step.Action != PatchClaim || !ok || next.Annotations[AnnotationAhead] != AheadOf("n1", "u2")+"/"+aheadRefused {
		t.Errorf("%+v", step)
	}
}

// TestNeedsVolumes: volumes are read only for a backing claim of this cluster that has no volume and no driver.
func TestNeedsVolumes(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*State)
		want   bool
	}{
		"no volume, no driver":  {func(*State) {}, true},
		"a driver":              {func(s *State) { s.Classes[2].Provisioner = "example.org/disk" }, false},
		"a volume":              {func(s *State) { s.Backing.Spec.VolumeName = "b" }, false},
		"in a provider":         {func(s *State) { s.Place = there() }, false},
		"no backing claim":      {func(s *State) { s.Backing = nil }, false},
		"a claim of another":    {func(s *State) { s.Backing.Annotations = nil }, false},
		"no class of that name": {func(s *State) { s.Classes = s.Classes[:2] }, false},
	} {
		s := waiting(t)
		if row.change(&s); s.NeedsVolumes() != row.want {
			t.Errorf("%s: %t", name, !row.want)
		}
	}
}
