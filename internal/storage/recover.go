package storage

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// forgotten reports whether the backing claim in a provider may have data, and this cluster has no virtual volume for it. This cluster was restored from a backup,
// or the volume was removed by force. While the data moves, or while another volume in the provider stands for the name, the backing claim stays as it is: a
// provider may write any UID to it, and gets no second volume by that.
func (s *State) forgotten() bool {
	return s.Place.Cluster != "" && s.Volume == nil && s.ours() && s.Backing.DeletionTimestamp == nil && ClaimOf(s.Backing) == s.Key &&
		s.Backing.Spec.VolumeName != "" && s.Backing.Status.Phase == corev1.ClaimBound && s.Backing.Annotations[AnnotationRetained] != retainedCopy &&
		!slices.ContainsFunc(s.Reserved, func(v *corev1.PersistentVolume) bool {
			return v.Annotations[AnnotationMove] != "" || ClusterOf(v) == s.Place.Cluster
		})
}

// recover creates the virtual volume of a forgotten backing claim again. Its claimRef has the UID of its former claim. So Kubernetes binds no other claim to it. If
// the former claim still names the volume, Kubernetes binds both again.
func (s *State) recover() Step {
	of := *s
	if of.Claim == nil {
		of.Claim = s.formerClaim()
	}
	volume := of.newVolume()
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	annotate(&volume.ObjectMeta, annotationRecovered, s.Backing.Namespace+"/"+s.Backing.Name)
	return Step{Action: CreateVolume, Object: volume, Why: "the backing claim has data, and this cluster has no volume for it", Confirm: true}
}

// formerClaim returns the claim of a backing claim, as far as the backing claim shows it. It does not show the class.
func (s *State) formerClaim() *corev1.PersistentVolumeClaim {
	out := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name, UID: s.UID}, Spec: *s.Backing.Spec.DeepCopy(),
	}
	class := s.ownClass()
	out.Spec.StorageClassName = &class
	return out
}

// Recovered returns the message about a virtual volume that was created again for a forgotten backing claim. It is empty for other volumes.
func Recovered(volume *corev1.PersistentVolume) string {
	backing := volume.Annotations[annotationRecovered]
	if backing == "" {
		return ""
	}
	return fmt.Sprintf("PersistentVolumeClaim %s of cluster %s has data, and this cluster had no volume for it: PersistentVolume %s was created again, with policy Retain. "+
		"A claim that still names this volume gets it. %s", backing, ClusterOf(volume), volume.Name, reuse(volume))
}

// reuse says how to use the data of a retained volume in a provider, and how to delete it.
func reuse(volume *corev1.PersistentVolume) string {
	data := DataOf(volume)
	return fmt.Sprintf(`To use the data, reserve the volume for PersistentVolumeClaim %[1]s in namespace %[2]s: kubectl patch pv %[3]s --type merge --patch `+
		`'{"spec":{"claimRef":{"namespace":"%[2]s","name":"%[1]s","uid":null,"resourceVersion":null}}}'. A claim of this name with storageClassName %[4]s, the accessModes `+
		`of the volume and at most its size gets it then. To delete the data: %[5]s`, data.Name, data.Namespace, volume.Name, volume.Spec.StorageClassName, Discard(volume))
}
