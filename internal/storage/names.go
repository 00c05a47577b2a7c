package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
)

// Provisioner is the provisioner of Liqo's StorageClass. Every StorageClass of this provisioner is a class of Liqo.
const Provisioner = "liqo.io/storage"

// Finalizer keeps a virtual volume until Liqo has deleted or retained its backing claim.
const Finalizer = "storage.liqo.io/backing-claim"

// LabelVirtual ("true") marks the virtual volumes of all clusters, for watches.
const LabelVirtual = "storage.liqo.io/virtual-volume"

// LabelTenant is the label of a virtual volume with the name of the provider's tenant namespace. The ServiceAccounts of the provider's virtual kubelets are in
// that namespace. An admission policy compares the two, so that a virtual kubelet writes only volumes of its provider.
const LabelTenant = "storage.liqo.io/tenant-namespace"

// Labels and annotations of backing claims.
const (
	// LabelClaimNamespace and LabelClaimName are the namespace and the name of the claim. The label value is shortened if the name is too long. The annotation
	// with the key LabelClaimName has the full name.
	LabelClaimNamespace = "storage.liqo.io/virtual-pvc-namespace"
	LabelClaimName      = "storage.liqo.io/virtual-pvc-name"
	// AnnotationClaimUID is the UID of the claim. It distinguishes the backing claims of successive claims with the same name.
	AnnotationClaimUID = "storage.liqo.io/virtual-pvc-uid"
	// AnnotationRetained marks a backing claim that is kept although it has no virtual volume. Its value is "true". Value retainedCopy marks
	// a backing claim that has no data of its own: a copy of data that is still elsewhere or, in this cluster, one that was never in use. Liqo may delete such a claim,
	// even if it is bound, as long as its virtual volume is not bound.
	AnnotationRetained = "storage.liqo.io/retained"
	// annotationNode is the node that Liqo last wrote to AnnotationSelectedNode of the backing claim. A driver that can't create a volume for this node removes
	// AnnotationSelectedNode, but not this annotation.
	annotationNode = "storage.liqo.io/selected-node"
	// annotationRefused is the resource version of the claim at the time when the driver refused annotationNode. If the claim changes later, the refusal no
	// longer applies, because the scheduler may have selected the same node again.
	annotationRefused = "storage.liqo.io/refused-at"
)

// AnnotationMove on a claim delays its virtual volume: Liqo creates the backing claim, but pods wait until the data is complete. Its value is the name of the
// volume that holds the data now. On a virtual volume, this annotation is the record of the move of its data. See package move.
const AnnotationMove = "storage.liqo.io/move"

// AnnotationAhead on a claim with a volume requests a second volume, which receives a copy of the data while pods use the first one. Its value is NODE/UID: the
// target node of the move, and a UID for the names of the backing claim and the virtual volume. The claimRef of the volume has this UID, which no claim has, so
// that Kubernetes binds no claim to the volume. NODE/UID/refused means that a driver can't create a volume for the node. Any user who may write claims can set
// this annotation. So Liqo ignores it unless the record of a move has the same node and UID (see Owns).
const AnnotationAhead = "storage.liqo.io/move-ahead"

// AnnotationCapacity on a claim is the size of the volume that a move copies, if the claim requests less. The backing claim gets that size. Policy PolicyMovingClaims
// lets only users who may write volumes write it, because quotas count what the claim requests.
const AnnotationCapacity = "storage.liqo.io/move-capacity"

// AnnotationDefaultClass is, on a remote namespace of a consumer, the class that this cluster offers as the default. Admission policy liqo-copies-claim reads it.
const AnnotationDefaultClass = "storage.liqo.io/default-class"

// AnnotationMovingClaims on a namespace lists the claims whose data is being moved, as CLAIM=VOLUME/NODE separated by commas: the volume that has the data, and
// the target node. Policy PolicyMovingClaims refuses every other new claim of these names. Otherwise the owner of a claim, such as a StatefulSet, would create an
// empty claim while the move replaces it.
const (
	AnnotationMovingClaims = "storage.liqo.io/moving-claims"
	PolicyMovingClaims     = "liqo-moving-claims"
)

// retainedCopy is a value of AnnotationRetained.
const retainedCopy = "copy"

// aheadRefused is the third part of AnnotationAhead.
const aheadRefused = "refused"

// AheadOf returns the value of AnnotationAhead.
func AheadOf(node string, uid types.UID) string { return node + "/" + string(uid) }

// ahead returns the node and the UID in AnnotationAhead. Both are empty if the claim has no such annotation. The node is empty if a driver refused it.
func ahead(claim *corev1.PersistentVolumeClaim) (node string, uid types.UID) {
	parts := strings.Split(claim.Annotations[AnnotationAhead], "/")
	switch {
	case len(parts) == 2 && claim.Spec.VolumeName != "":
		return parts[0], types.UID(parts[1])
	case len(parts) == 3 && claim.Spec.VolumeName != "":
		return "", types.UID(parts[1])
	}
	return "", ""
}

// UIDs returns the UIDs that the names of a claim's backing claims may contain: the UID of the claim, and the UID in AnnotationAhead. The caller has to check
// the second one with Owns.
func UIDs(claim *corev1.PersistentVolumeClaim) []types.UID {
	out := []types.UID{claim.UID}
	if _, uid := ahead(claim); uid != "" {
		out = append(out, uid)
	}
	return out
}

// Owns reports whether a claim may use the virtual volume with this UID in its name. The UID must be that of the claim or that in AnnotationAhead. Users can
// write AnnotationAhead, but only administrators can write volumes. So the UID in AnnotationAhead counts only if the record of a move on volume has the same
// UID and node. volume is the volume of the claim, nil if it has none.
func Owns(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, uid types.UID) bool {
	if uid == claim.UID {
		return true
	}
	if _, second := ahead(claim); uid == "" || uid != second || volume == nil || volume.Name != claim.Spec.VolumeName ||
		VolumeUID(volume) == "" {
		return false
	}
	ref := volume.Spec.ClaimRef
	if ref == nil || ref.UID != claim.UID || ref.Namespace != claim.Namespace || ref.Name != claim.Name {
		return false
	}
	var record moving
	node, _, _ := strings.Cut(claim.Annotations[AnnotationAhead], "/")
	return json.Unmarshal([]byte(volume.Annotations[AnnotationMove]), &record) == nil && record.Live.UID == uid && record.Node == node
}

// SelectedNode returns the node selected for the volume with this UID, which is one of UIDs. It is empty if no node is selected.
func SelectedNode(claim *corev1.PersistentVolumeClaim, uid types.UID) string {
	if node, second := ahead(claim); uid == second && second != "" {
		return node
	}
	return claim.Annotations[AnnotationSelectedNode]
}

// annotationEphemeral ("true") marks a virtual volume whose data is deleted together with a pod.
const annotationEphemeral = "storage.liqo.io/ephemeral"

// annotationDataOf, on a virtual volume, is the claim for which the volume was created, as NAMESPACE/NAME. A provider has the data in a claim of that name. The
// annotation stays when another claim is bound to the volume.
const annotationDataOf = "storage.liqo.io/data-of"

// Annotations of Kubernetes.
const (
	// AnnotationSelectedNode, on a claim, is the node that the scheduler selected for its first pod.
	AnnotationSelectedNode = "volume.kubernetes.io/selected-node"
	// annotationProvisioner, on a claim, is the provisioner that has to create the volume.
	annotationProvisioner = "volume.kubernetes.io/storage-provisioner"
	// annotationBoundByController, on a volume, says that a program wrote its claimRef, and not an administrator.
	annotationBoundByController = "pv.kubernetes.io/bound-by-controller"
	// annotationProvisionedBy, on a volume, is the provisioner that created it.
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
	// The annotations of a default StorageClass. Kubernetes still supports the second one, from old releases.
	annotationDefaultClass    = "storageclass.kubernetes.io/is-default-class"
	annotationOldDefaultClass = "storageclass.beta.kubernetes.io/is-default-class"
)

// annotationRecovered, on a virtual volume, is the backing claim in the provider for which the volume was created again: NAMESPACE/NAME.
const annotationRecovered = "storage.liqo.io/recovered-from"

// volumePrefix precedes the UID of the claim in the name of its virtual volume.
const volumePrefix = "pvc-"

// VolumeName returns the name of the virtual volume of the claim with that UID.
func VolumeName(uid types.UID) string { return volumePrefix + string(uid) }

// VolumeUID returns the UID in the name of a virtual volume. It is empty if the volume is not a virtual volume. A volume with its data in a provider is
// recognized even without the annotation of its provisioner, by its source and its node affinity, which do not change.
func VolumeUID(volume *corev1.PersistentVolume) types.UID {
	uid, ok := strings.CutPrefix(volume.Name, volumePrefix)
	source := volume.Spec.HostPath
	inProvider := source != nil && source.Path == placeholder && ClusterOf(volume) != ""
	if !ok || volume.Annotations[annotationProvisionedBy] != Provisioner && !inProvider {
		return ""
	}
	return types.UID(uid)
}

// ClusterOf returns the cluster ID of the provider with the data of a virtual volume. It is empty if the data is in this cluster. Decisions about data use this
// function instead of the label with the cluster ID: node affinity does not change after the creation of a volume, and a person may remove labels.
func ClusterOf(volume *corev1.PersistentVolume) string {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil || len(affinity.Required.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, r := range affinity.Required.NodeSelectorTerms[0].MatchExpressions {
		if r.Key == api.LabelRemoteClusterID && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			return r.Values[0]
		}
	}
	return ""
}

// Virtual returns the virtual volumes among volumes. It returns a new slice, and does not copy the volumes.
func Virtual(volumes []corev1.PersistentVolume) []corev1.PersistentVolume {
	var out []corev1.PersistentVolume
	for i := range volumes {
		if VolumeUID(&volumes[i]) != "" {
			out = append(out, volumes[i])
		}
	}
	return out
}

// Describe describes a virtual volume and the claim in its claimRef. It is empty if the volume is not a virtual volume. all are all virtual volumes.
func Describe(volume *corev1.PersistentVolume, all []corev1.PersistentVolume) string {
	if VolumeUID(volume) == "" {
		return ""
	}
	size := volume.Spec.Capacity[corev1.ResourceStorage]
	if ref := volume.Spec.ClaimRef; ref != nil && (!Unclaimed(volume) || InMove(volume, all)) {
		return fmt.Sprintf("PersistentVolumeClaim %s in namespace %s has a volume of Liqo, %s", ref.Name, ref.Namespace, size.String())
	}
	if ref := DataOf(volume); ref.Name != "" {
		whose := "deleted"
		if volume.Status.Phase != corev1.VolumeReleased { // it is reserved, perhaps for a claim that exists
			whose = "former"
		}
		text := fmt.Sprintf("PersistentVolume %s of %s claim %s in namespace %s is a retained volume of Liqo, %s", volume.Name, whose, ref.Name, ref.Namespace, size.String())
		if volume.DeletionTimestamp != nil && InProvider(volume) {
			text += ", in deletion until its data is gone,"
		}
		return text
	}
	return fmt.Sprintf("PersistentVolume %s is a retained volume of Liqo, %s", volume.Name, size.String())
}

// InProvider reports whether a volume is a virtual volume whose data is in a provider and is not ephemeral.
func InProvider(volume *corev1.PersistentVolume) bool {
	return VolumeUID(volume) != "" && ClusterOf(volume) != "" && volume.Annotations[annotationEphemeral] != api.True
}

// Unclaimed reports whether no claim uses a volume: its claim was deleted, or an administrator made it available or reserved it for a claim that is not bound to it.
func Unclaimed(volume *corev1.PersistentVolume) bool {
	return volume.Status.Phase == corev1.VolumeReleased || volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID == ""
}

// Retained reports whether a volume is a virtual volume that keeps the data of a deleted claim in a provider. all are all virtual volumes.
func Retained(volume *corev1.PersistentVolume, all []corev1.PersistentVolume) bool {
	return InProvider(volume) && Unclaimed(volume) && !InMove(volume, all) && volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
}

// InMove reports whether a volume is one of the two volumes of an unfinished move, whose claim is replaced meanwhile: the source, which has the record of the
// move, or the new volume, which the record of a live move names. If the record can't be read, all volumes of the claim may be part of the move. all are all
// virtual volumes.
func InMove(volume *corev1.PersistentVolume, all []corev1.PersistentVolume) bool {
	if volume.Annotations[AnnotationMove] != "" {
		return true
	}
	return slices.ContainsFunc(all, func(source corev1.PersistentVolume) bool {
		text := source.Annotations[AnnotationMove]
		if text == "" || ReservedFor(&source) != ReservedFor(volume) {
			return false
		}
		var record moving
		return json.Unmarshal([]byte(text), &record) != nil || record.Live.UID != "" && record.Live.UID == VolumeUID(volume)
	})
}

// MoveTarget returns the target node of the unfinished move of a volume's data. moves is false if there is no such move. The node is empty if the record of the
// move can't be read.
func MoveTarget(volume *corev1.PersistentVolume) (node string, moves bool) {
	text := volume.Annotations[AnnotationMove]
	if text == "" || VolumeUID(volume) == "" {
		return "", false
	}
	var record moving
	if json.Unmarshal([]byte(text), &record) != nil {
		return "", true
	}
	return record.Node, true
}

// Discard returns the command that has Liqo delete a retained volume with its data. Kubernetes and Liqo delete a volume without a claim (Available) only on request.
func Discard(volume *corev1.PersistentVolume) string {
	command := fmt.Sprintf(`kubectl patch pv %s --patch '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`, volume.Name)
	if Unclaimed(volume) && volume.Status.Phase != corev1.VolumeReleased {
		command += " && kubectl delete pv " + volume.Name
	}
	return command
}

// Provisioned reports whether Liqo's provisioner has to create the volume of a claim.
func Provisioned(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[annotationProvisioner] == Provisioner
}

// BackingUID returns the UID of the claim that a backing claim was created for. It is empty if the claim is not a backing claim.
func BackingUID(backing *corev1.PersistentVolumeClaim) types.UID {
	return types.UID(backing.Annotations[AnnotationClaimUID])
}

// ClaimOf returns the namespace and name of the claim that a backing claim was created for.
func ClaimOf(backing *corev1.PersistentVolumeClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: backing.Labels[LabelClaimNamespace], Name: backing.Annotations[LabelClaimName]}
}

// ReservedFor returns the namespace and the name of the claim that a volume is reserved for, or bound to. Both are empty if there is none.
func ReservedFor(volume *corev1.PersistentVolume) types.NamespacedName {
	if volume.Spec.ClaimRef == nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: volume.Spec.ClaimRef.Namespace, Name: volume.Spec.ClaimRef.Name}
}

// DataOf returns the claim for which a virtual volume was created, which has the name of the backing claim in a provider. For a volume of a release that did not
// record it, DataOf returns the claim that the volume is reserved for.
func DataOf(volume *corev1.PersistentVolume) types.NamespacedName {
	if namespace, name, found := strings.Cut(volume.Annotations[annotationDataOf], "/"); found {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return ReservedFor(volume)
}

// reused reports whether a claim of another name or namespace than that for which the volume was created is bound to the volume.
func reused(volume *corev1.PersistentVolume) bool {
	return volume.Spec.ClaimRef != nil && volume.Status.Phase != corev1.VolumeReleased && ReservedFor(volume) != DataOf(volume)
}

// ClassOf returns the StorageClass of a claim. It is nil if the claim has none, or if the class does not exist.
func ClassOf(claim *corev1.PersistentVolumeClaim, classes []storagev1.StorageClass) *storagev1.StorageClass {
	if claim.Spec.StorageClassName == nil {
		return nil
	}
	return find(*claim.Spec.StorageClassName, classes)
}

func find(name string, classes []storagev1.StorageClass) *storagev1.StorageClass {
	for i := range classes {
		if classes[i].Name == name {
			return &classes[i]
		}
	}
	return nil
}

// Uses reports whether a pod mounts the claim with that name of its namespace.
func Uses(pod *corev1.Pod, claim string) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim || v.Ephemeral != nil && pod.Name+"-"+v.Name == claim {
			return true
		}
	}
	return false
}

// UsesOn reports whether a pod uses a claim and belongs to one of the selected nodes. A pod that is not scheduled yet waits for the volume, so it belongs to
// the node that is selected for the claim.
func UsesOn(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, has func(node string) bool) bool {
	at := pod.Spec.NodeName
	if at == "" {
		at = claim.Annotations[AnnotationSelectedNode]
	}
	return at != "" && pod.Namespace == claim.Namespace && Uses(pod, claim.Name) && has(at)
}

// ProviderOf returns the cluster ID of the provider of a virtual node, empty for a node of this cluster.
func ProviderOf(node *corev1.Node) string {
	if node.Labels[api.LabelType] != api.TypeVirtualNode {
		return ""
	}
	return node.Labels[api.LabelRemoteClusterID]
}

// annotate sets an annotation, or removes it if value is empty.
func annotate(meta *metav1.ObjectMeta, key, value string) {
	if value == "" {
		delete(meta.Annotations, key)
		return
	}
	metav1.SetMetaDataAnnotation(meta, key, value)
}

// The maximum length of a label value, and the number of hash digits that distinguish shortened values.
const (
	maxLabel   = 63
	hashLength = 8
)

// labelValue returns text. If that is too long for a label value, labelValue shortens it and appends a hash of the whole text.
func labelValue(text string) string {
	if len(text) <= maxLabel {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	suffix := "-" + hex.EncodeToString(sum[:])[:hashLength]
	return strings.TrimRight(text[:maxLabel-len(suffix)], "-.") + suffix
}
