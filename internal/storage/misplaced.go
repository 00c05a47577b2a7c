package storage

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"liqo.io/liqo/api"
)

// LeftToPods reports whether no virtual kubelet creates a volume for a claim. Only the pods that mount such a claim on virtual nodes get a message. This
// applies if the volume is in another cluster, if the class is not one of Liqo, or if no node is selected. volume is the virtual volume of the claim, nil if it
// has none.
func LeftToPods(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, classes []storagev1.StorageClass, cluster string) bool {
	switch {
	case claim.Spec.VolumeName == "":
		return !Concerns(claim, classes) || claim.Annotations[AnnotationSelectedNode] == ""
	case volume != nil:
		return ClusterOf(volume) != cluster
	default:
		return !mayBeLost(claim, classes)
	}
}

// mayBeLost reports whether a claim without a virtual volume may have had one. The name of its volume alone does not say so, because the usual drivers name their
// volumes after the UID of the claim, too.
func mayBeLost(claim *corev1.PersistentVolumeClaim, classes []storagev1.StorageClass) bool {
	class := ClassOf(claim, classes)
	return claim.Spec.VolumeName == VolumeName(claim.UID) && (class == nil || class.Provisioner == Provisioner)
}

// Misplaced returns the step of a virtual kubelet that does not decide about the claims of its provider. Such a virtual kubelet writes nothing. It only reports
// that a pod on its node mounts a claim that has no volume in the provider and gets none there.
func Misplaced(s State) Step {
	return s.orMisplaced(Step{Why: "another virtual kubelet decides about the claim"})
}

// orMisplaced returns a refusal if a pod on a node of the provider mounts a claim whose volume is in another cluster. Otherwise it returns step unchanged. It
// also returns step unchanged if step writes something, or if the provider has a claim of that name.
func (s *State) orMisplaced(step Step) Step {
	if step.Action != Nothing || s.Place.Cluster == "" || s.Claim == nil || s.Backing != nil || !s.Mounted || api.Ephemeral(s.Claim) && !s.ByName {
		return step
	}
	volume := s.virtual()
	switch {
	case volume != nil && volume.Name == s.Claim.Spec.VolumeName && s.clusterOfVolume() != s.Place.Cluster:
		step = s.refuseCluster()
	case volume == nil && s.Claim.Spec.VolumeName == "" && Concerns(s.Claim, s.Classes) && SelectedNode(s.Claim, s.UID) == "":
		step = refuse("the claim has %s, which creates the volume where the scheduler sends the first pod, and its pod was bound to a virtual node of cluster %s without "+
			"the scheduler: create the pod again without spec.nodeName, for example with a node selector", className(s.Claim), s.Place.Cluster)
	case volume == nil && !mayBeLost(s.Claim, s.Classes) && (s.Claim.Spec.VolumeName != "" || !Concerns(s.Claim, s.Classes)):
		return s.refuseClass()
	default:
		return step
	}
	step.Confirm = true // the cache may be older than the pod
	return step
}

// refuseCluster refuses a claim whose virtual volume is in another cluster than its pod.
func (s *State) refuseCluster() Step {
	where := "this cluster"
	if cluster := s.clusterOfVolume(); cluster != "" {
		where = "cluster " + cluster
	}
	return refuse("the volume of the claim, which has %s, is in %s, and its pod is on a virtual node of cluster %s: create the pod again without spec.nodeName, so that "+
		"the scheduler sends it to its volume, or move the volume: liqoctl move volume %s --namespace %s --target-node NODE",
		className(s.Claim), where, s.Place.Cluster, s.Claim.Name, s.Claim.Namespace)
}

// refuseClass refuses a claim whose class is not one of Liqo.
func (s *State) refuseClass() Step {
	step := refuse("the claim has %s, whose volumes are in this cluster only, and its pod is scheduled on a virtual node of cluster %s: use a claim of StorageClass %s, "+
		"keep the pod off virtual nodes (node affinity with %s DoesNotExist), or create PersistentVolumeClaim %s in %s",
		className(s.Claim), s.Place.Cluster, s.ownClass(), api.LabelType, s.Claim.Name, s.where())
	step.Confirm = true // the cache has no claim that Liqo did not create
	return step
}

// className returns the class of a claim as users read it.
func className(claim *corev1.PersistentVolumeClaim) string {
	if name := claim.Spec.StorageClassName; name != nil && *name != "" {
		return fmt.Sprintf("StorageClass %s", *name)
	}
	return "no StorageClass"
}

// ownClass returns the name of the oldest class of Liqo, which usually is the class of the installation. The order of s.Classes is random.
func (s *State) ownClass() string {
	var own *storagev1.StorageClass
	for i := range s.Classes {
		class := &s.Classes[i]
		if class.Provisioner == Provisioner && (own == nil || class.CreationTimestamp.Before(&own.CreationTimestamp) ||
			class.CreationTimestamp.Equal(&own.CreationTimestamp) && class.Name < own.Name) {
			own = class
		}
	}
	if own == nil {
		return "liqo"
	}
	return own.Name
}
