package storage

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/excerpt"
)

// RecoveredLimit is the maximum number of recovered volumes without a claim of each provider, not counting the first one of each namespace. The limit is needed
// because a provider can make up any number of claims, and this cluster stores a volume of about 2 KiB for each until a person has decided about it. With the
// limit, those of a provider take about 200 KiB of etcd, and fit on a page of kubectl. Workers that decide at the same moment may exceed it by their number.
//
// The limit loses no data. A recovered volume holds its remote namespace, with all claims there, until it is gone, whatever its reclaim policy. The last one of
// a namespace goes only once another one exists, or no data there waits for a volume.
const RecoveredLimit = 100

// IndexRecovered is the index value of recovered volumes in a View. No name of a claim is equal to it.
const IndexRecovered = "recovered"

// longestName is the length limit of names of Kubernetes.
const longestName = 253

// forgotten reports whether the backing claim in a provider may have data, and this cluster has no virtual volume for it. This cluster was restored from a
// backup, or the volume was removed by force. While the data moves, or while another volume in the provider stands for the name, the backing claim stays as it
// is: a provider may write any UID to it, and must not get a second volume that way.
func (s *State) forgotten() bool {
	return s.Place.Cluster != "" && s.Volume == nil && s.ours() && s.Backing.DeletionTimestamp == nil && ClaimOf(s.Backing) == s.Key && s.mayBind() &&
		len(s.UID) <= longestUID && len(s.Key.Name) <= longestName &&
		s.Backing.Spec.VolumeName != "" && s.Backing.Status.Phase == corev1.ClaimBound && s.Backing.Annotations[AnnotationRetained] != retainedCopy &&
		!slices.ContainsFunc(s.Reserved, func(v *corev1.PersistentVolume) bool {
			return v.Annotations[AnnotationMove] != "" || ClusterOf(v) == s.Place.Cluster
		})
}

// mayBind reports whether the claim of this cluster, if it exists, may be bound to a recovered volume. A provider that knows the UID of a claim must not be
// able to choose its volume. So only a claim with a class of Liqo, whose pod is not scheduled elsewhere, may be bound.
func (s *State) mayBind() bool {
	if s.Claim == nil {
		return true
	}
	elsewhere := SelectedNode(s.Claim, s.UID) != "" && (s.Node == nil || ProviderOf(s.Node) != s.Place.Cluster)
	return Concerns(s.Claim, s.Classes) && (s.Claim.Spec.VolumeName != "" || !elsewhere)
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
	annotate(&volume.ObjectMeta, annotationRecovered, s.recoveredFrom())
	return Step{Action: CreateVolume, Object: volume, Why: "the backing claim has data, and this cluster has no volume for it", Confirm: true}
}

// recoveredFrom returns the value of annotationRecovered for a volume that is recovered now.
func (s *State) recoveredFrom() string { return s.Place.Namespace + "/" + s.Key.Name }

// full reports whether the limit of recovered volumes is reached, and another one holds the remote namespace.
func (s *State) full() bool { return RecoveredFull(s.Recovered, s.Place.Cluster) && s.held() }

// held reports whether a recovered volume that is to stay holds the remote namespace.
func (s *State) held() bool {
	return slices.ContainsFunc(s.Recovered, func(v *corev1.PersistentVolume) bool {
		return waits(v, s.Place.Cluster) && DataOf(v).Namespace == s.Key.Namespace &&
			v.DeletionTimestamp == nil && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	})
}

// Waits reports whether a backing claim in a provider waits for its volume: it may have data, and this cluster has no volume for it. The claim in this cluster need not
// be known.
func (s *State) Waits() bool { return s.forgotten() }

// forgottenBeyondLimit decides about forgotten data while the limit is reached. The data stays.
func (s *State) forgottenBeyondLimit() Step {
	why := fmt.Sprintf("it may have data, and cluster %s has %d recovered volumes without a claim, which is the limit", s.Place.Cluster, RecoveredLimit)
	if s.Backing.Annotations[AnnotationRetained] == api.True {
		return Step{Why: why, Retry: true}
	}
	return s.keep(why)
}

// dataGone reports whether the data of a recovered volume is known to be gone. Without the mapping of its namespace, or with that of another remote namespace, nothing
// is known: the NamespaceMap may be incomplete right after a restore. A volume with the record of a move stays, because the copy of its data may not be complete.
func (s *State) dataGone(volume *corev1.PersistentVolume) bool {
	return s.Place.Cluster != "" && s.Listed && s.Backing == nil && volume.Annotations[AnnotationMove] == "" && volume.Annotations[annotationRecovered] == s.recoveredFrom()
}

// formerClaim returns the claim of a backing claim, as far as the backing claim shows it. It does not show the class. A provider may write anything to its own
// claims, so formerClaim takes over only what a claim of this cluster can have.
func (s *State) formerClaim() *corev1.PersistentVolumeClaim {
	class := s.ownClass()
	out := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name, UID: s.UID},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, VolumeMode: s.Backing.Spec.VolumeMode, Resources: *s.Backing.Spec.Resources.DeepCopy(),
		},
	}
	for _, mode := range allAccessModes() {
		if slices.Contains(s.Backing.Spec.AccessModes, mode) {
			out.Spec.AccessModes = append(out.Spec.AccessModes, mode)
		}
	}
	return out
}

// IsRecovered reports whether a volume is a virtual volume that was created again for a forgotten backing claim.
func IsRecovered(volume *corev1.PersistentVolume) bool {
	return VolumeUID(volume) != "" && volume.Annotations[annotationRecovered] != ""
}

// RecoveredFull reports whether a provider has as many recovered volumes without a claim as the limit permits, so that it may have more data without a volume. volumes
// are the recovered volumes of this cluster, or more.
func RecoveredFull(volumes []*corev1.PersistentVolume, cluster string) bool {
	count := 0
	for _, v := range volumes {
		if waits(v, cluster) {
			count++
		}
	}
	return count >= RecoveredLimit
}

// waits reports whether a volume is a recovered volume of a provider, and no claim is bound to it.
func waits(volume *corev1.PersistentVolume, cluster string) bool {
	return IsRecovered(volume) && ClusterOf(volume) == cluster && volume.Status.Phase != corev1.VolumeBound
}

// Recovered returns the message about a virtual volume that was created again for a forgotten backing claim. It is empty for other volumes. full is the result of
// RecoveredFull.
func Recovered(volume *corev1.PersistentVolume, full bool) string {
	if !IsRecovered(volume) {
		return ""
	}
	more := ""
	if full {
		more = " " + RecoveredMore(ClusterOf(volume))
	}
	return fmt.Sprintf("PersistentVolumeClaim %s of cluster %s has data, and this cluster had no volume for it: PersistentVolume %s was created again, with policy Retain. "+
		"%s A claim that still names this volume gets it.%s", shown(volume.Annotations[annotationRecovered]), ClusterOf(volume), volume.Name, reuse(volume), more)
}

// shown returns a name, cut if it is so long that the rest of a message would not fit into an Event.
func shown(name string) string { return excerpt.Line(name, 63) }

// RecoveredMore says that a provider may have more data than its recovered volumes show.
func RecoveredMore(cluster string) string {
	return fmt.Sprintf("Cluster %s may have more such data: %d recovered volumes are the limit, and others follow as claims use them.", cluster, RecoveredLimit)
}

// reuse says how to use the data of a retained volume in a provider, and how to delete it. The commands come first and have each name once, because the end of
// a long Event is cut.
func reuse(volume *corev1.PersistentVolume) string {
	if volume.DeletionTimestamp != nil {
		return fmt.Sprintf("It is in deletion, so no claim gets it. To use the data, copy it with a pod on the virtual node of cluster %s that mounts claim %s. To delete the data: %s.",
			ClusterOf(volume), DataOf(volume).Name, Discard(volume))
	}
	return fmt.Sprintf("To use the data, reserve the volume: %s. To delete the data: %s. %s.", reserve(volume), Discard(volume), fits(volume))
}

// CopyOut says how to copy the data of a retained volume in a provider, and how to release the volume then. node is the virtual node. It is for volumes in deletion
// too, which Kubernetes binds to no claim.
func CopyOut(volume *corev1.PersistentVolume, node string) string {
	data := DataOf(volume)
	return fmt.Sprintf("read the data with a pod in namespace %s that has nodeName %s and mounts claim %s, and copy what is needed; only then release it: %s",
		data.Namespace, node, data.Name, Discard(volume))
}

// Reuse says how to use the data of a retained volume in a provider that is not in deletion.
func Reuse(volume *corev1.PersistentVolume) string {
	data := DataOf(volume)
	return fmt.Sprintf("reserve the volume for PersistentVolumeClaim %s in namespace %s: %s. %s", data.Name, data.Namespace, reserve(volume), fits(volume))
}

// reserve returns the command that reserves a retained volume for the claim of its data.
func reserve(volume *corev1.PersistentVolume) string {
	data := DataOf(volume)
	return fmt.Sprintf(`kubectl patch pv %s --type merge --patch '{"spec":{"claimRef":{"namespace":"%s","name":"%s","uid":null,"resourceVersion":null}}}'`,
		volume.Name, data.Namespace, data.Name)
}

// fits says which claim gets a reserved volume.
func fits(volume *corev1.PersistentVolume) string {
	return fmt.Sprintf("The claim in the command gets the volume if it has storageClassName %s, the accessModes of the volume and at most its size", volume.Spec.StorageClassName)
}
