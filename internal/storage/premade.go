package storage

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"

	"liqo.io/liqo/api"
)

// noProvisioner is the provisioner of StorageClasses without a driver: an administrator creates their volumes.
const noProvisioner = "kubernetes.io/no-provisioner"

// NeedsVolumes reports whether the decision depends on Volumes: the backing claim waits for a volume that an administrator has to create.
func (s *State) NeedsVolumes() bool {
	if s.Place.Cluster != "" || !s.ours() || s.Backing.Spec.VolumeName != "" {
		return false
	}
	class := ClassOf(s.Backing, s.Classes)
	return class != nil && class.Provisioner == noProvisioner
}

// premade selects a volume that an administrator created for the backing claim. For other claims of such a class, the scheduler does that when it schedules their
// pod. No pod mounts the backing claim before it is bound, so the scheduler never does it there. If a volume fits on other nodes only, the scheduler selects
// another node for the claim, unless a move has chosen the node.
func (s *State) premade(node string) Step {
	here, elsewhere := s.fitting()
	switch {
	case here != nil && here.Spec.ClaimRef != nil:
		return Step{Why: "waiting for Kubernetes to bind PersistentVolume " + here.Name + " to the backing claim"}
	case here != nil:
		return s.reserve(here)
	case s.ahead():
		step := s.deselect("no PersistentVolume of the class fits on node " + node)
		step.Confirm = true
		return step
	case elsewhere != nil && s.Claim.Annotations[AnnotationMove] == "":
		step := s.deselect("PersistentVolume " + elsewhere.Name + " fits on other nodes only")
		step.Confirm, step.Refused = true, fmt.Sprintf("%s. PersistentVolume %s fits on other nodes, and the scheduler selects a node again: let the pod run on one of them", s.noneFits(node), elsewhere.Name)
		return step
	}
	return refuse("%s: create such a PersistentVolume. If its spec.claimRef names that claim, it is reserved for the claim. For another class, first set annotation %s of the namespace, or chart value "+
		"storage.realStorageClassName, and use a new claim", s.noneFits(node), api.AnnotationRealStorageClass)
}

// fitting returns the volume that Kubernetes would bind to the backing claim for a pod on the selected node, and one that fits on other nodes only. A volume with
// the backing claim in its claimRef comes first, then the smallest one.
func (s *State) fitting() (here, elsewhere *corev1.PersistentVolume) {
	better := func(a, b *corev1.PersistentVolume) bool {
		if b == nil || (a.Spec.ClaimRef != nil) != (b.Spec.ClaimRef != nil) {
			return b == nil || a.Spec.ClaimRef != nil
		}
		order := a.Spec.Capacity.Storage().Cmp(*b.Spec.Capacity.Storage())
		return order < 0 || order == 0 && a.Name < b.Name
	}
	for i := range s.Volumes {
		volume := &s.Volumes[i]
		switch {
		case !s.fits(volume):
		case Permits(volume, s.Node):
			if better(volume, here) {
				here = volume
			}
		case better(volume, elsewhere):
			elsewhere = volume
		}
	}
	return here, elsewhere
}

// fits reports whether Kubernetes can bind a volume to the backing claim, whatever the node is.
func (s *State) fits(volume *corev1.PersistentVolume) bool {
	lacks := func(mode corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(volume.Spec.AccessModes, mode)
	}
	if volume.DeletionTimestamp != nil || less(volume.Spec.Capacity, s.Backing.Spec.Resources.Requests[corev1.ResourceStorage]) ||
		slices.ContainsFunc(s.Backing.Spec.AccessModes, lacks) || volumeMode(volume.Spec.VolumeMode) != volumeMode(s.Backing.Spec.VolumeMode) ||
		ptr.Deref(volume.Spec.VolumeAttributesClassName, "") != "" {
		return false
	}
	if ref := volume.Spec.ClaimRef; ref != nil {
		return ref.Namespace == s.Backing.Namespace && ref.Name == s.Backing.Name && (ref.UID == "" || ref.UID == s.Backing.UID)
	}
	return volume.Status.Phase == corev1.VolumeAvailable && volume.Spec.StorageClassName == *s.Backing.Spec.StorageClassName
}

// Permits reports whether the node affinity of a volume permits a node.
func Permits(volume *corev1.PersistentVolume, node *corev1.Node) bool {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return true
	}
	matches, err := scheduling.MatchNodeSelectorTerms(node, affinity.Required)
	return err == nil && matches
}

// reserve writes the backing claim to the claimRef of a volume, as the scheduler does. Kubernetes then binds both. If another claim gets the volume first, the
// write fails, because the version of the volume has changed.
func (s *State) reserve(volume *corev1.PersistentVolume) Step {
	reserved := volume.DeepCopy()
	reserved.Spec.ClaimRef = &corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: s.Backing.Namespace, Name: s.Backing.Name, UID: s.Backing.UID,
	}
	annotate(&reserved.ObjectMeta, annotationBoundByController, "yes") // so Kubernetes removes the claimRef if it has bound the claim to another volume
	return Step{Action: ReserveVolume, Object: reserved, Old: volume, Why: "PersistentVolume " + volume.Name + " fits the backing claim", Confirm: true}
}

// deselect removes the selected node from the claim.
func (s *State) deselect(why string) Step {
	again := s.Claim.DeepCopy()
	if s.ahead() {
		annotate(&again.ObjectMeta, AnnotationAhead, AheadOf(SelectedNode(s.Claim, s.UID), s.UID)+"/"+aheadRefused)
	} else {
		annotate(&again.ObjectMeta, AnnotationSelectedNode, "")
	}
	return Step{Action: PatchClaim, Object: again, Old: s.Claim, Why: why}
}

// noneFits says to users which volume is missing.
func (s *State) noneFits(node string) string {
	size := s.Backing.Spec.Resources.Requests[corev1.ResourceStorage]
	return fmt.Sprintf("StorageClass %s, which has the data, has no driver (provisioner %s), so an administrator creates its volumes, and none that is Available fits PersistentVolumeClaim %s "+
		"in %s on node %s: at least %s, accessModes %v, volumeMode %s, and a node affinity that permits the node", *s.Backing.Spec.StorageClassName, noProvisioner, s.Backing.Name, s.where(), node,
		size.String(), s.Backing.Spec.AccessModes, volumeMode(s.Backing.Spec.VolumeMode))
}

func volumeMode(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	return ptr.Deref(mode, corev1.PersistentVolumeFilesystem)
}
