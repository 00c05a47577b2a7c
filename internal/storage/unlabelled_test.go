package storage

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
)

// made returns the virtual volume that Next creates for the claim, and the state in which it does so.
func made(t *testing.T, place Place, name string) (State, *corev1.PersistentVolume) {
	t.Helper()
	s := at(place, claim(name))
	s.Node = node(name)
	s.Backing = created(t, s)
	s.Backing.Spec.VolumeName, s.Backing.Status.Phase = "disk-7", corev1.ClaimBound
	if place.Cluster == "" {
		s.BackingVolume = &corev1.PersistentVolume{}
		s.BackingVolume.Name = "disk-7"
	}
	step := Next(s)
	volume, ok := step.Object.(*corev1.PersistentVolume)
	if step.Action != CreateVolume || !ok {
		t.Fatalf("%s: %s", step.Action, step.Why)
	}
	s.Volume, s.Claim.Spec.VolumeName = volume, volume.Name
	return s, volume
}

// TestVolumesAreKnownWithoutTheirLabels: the cluster of a volume is in its node affinity, which Kubernetes keeps. A person may remove or change its labels, and
// the annotation of its provisioner.
func TestVolumesAreKnownWithoutTheirLabels(t *testing.T) {
	for cluster, place := range map[string]Place{"": here(), "milan": there()} {
		_, volume := made(t, place, map[string]string{"": "n1", "milan": "milan"}[cluster])
		for name, labels := range map[string]map[string]string{"removed": nil, "changed": {LabelVirtual: "no", api.LabelRemoteClusterID: "turin"}} {
			if volume.Labels = labels; ClusterOf(volume) != cluster || VolumeUID(volume) != "u1" || InProvider(volume) != (cluster != "") {
				t.Errorf("labels %s: cluster %q, UID %q", name, ClusterOf(volume), VolumeUID(volume))
			}
		}
		if delete(volume.Annotations, annotationProvisionedBy); cluster != "" && (VolumeUID(volume) != "u1" || !InProvider(volume)) {
			t.Errorf("without annotations it is no volume of cluster %s", cluster)
		}
	}
}

// TestLabelsOfVolumesAreRestored: the controller manager writes the labels of a virtual volume again before it decides anything else about it. The data in a
// provider is not its own, so without that it would release the volume, which would then hold the remote namespace no longer.
func TestLabelsOfVolumesAreRestored(t *testing.T) {
	for name, place := range map[string]Place{"n1": here(), "milan": there()} {
		for _, phase := range []corev1.PersistentVolumePhase{corev1.VolumeBound, corev1.VolumeReleased} {
			s, volume := made(t, place, name)
			want := maps.Clone(volume.Labels)
			volume.Labels = map[string]string{"team": "blue"}
			volume.Status.Phase = phase
			if phase == corev1.VolumeReleased {
				s.Claim = nil
			}
			s.Place = here()
			if name == "milan" {
				s.Backing, s.BackingVolume, s.Tenant = nil, nil, there().Tenant
			}
			step := Next(s)
			restored, ok := step.Object.(*corev1.PersistentVolume)
			if step.Action != PatchVolume || !step.Confirm || !ok {
				t.Errorf("%s, %s: %s: %s", name, phase, step.Action, step.Why)
				continue
			}
			want["team"] = "blue"
			if !maps.Equal(restored.Labels, want) {
				t.Errorf("%s, %s: labels %v, want %v", name, phase, restored.Labels, want)
			}
			if s.Volume = restored; name == "milan" {
				if step = Next(s); step.Action != Nothing {
					t.Errorf("%s, %s: %s: %s", name, phase, step.Action, step.Why)
				}
			}
		}
	}
}
