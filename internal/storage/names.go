package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
)

// Provisioner is the provisioner of Liqo's StorageClass. Every StorageClass of this provisioner is a class of Liqo.
const Provisioner = "liqo.io/storage"

// Finalizer holds a virtual volume until it is decided what becomes of its backing claim.
const Finalizer = "storage.liqo.io/backing-claim"

// LabelVirtual ("true") marks the virtual volumes of all clusters, for watches.
const LabelVirtual = "storage.liqo.io/virtual-volume"

// LabelTenant names the tenant namespace of the provider on each of its virtual volumes. Its virtual kubelets write no other volumes: the accounts of
// virtual kubelets are in that namespace, so an admission policy can compare the two.
const LabelTenant = "storage.liqo.io/tenant-namespace"

// Labels and annotations of backing claims.
const (
	// LabelClaimNamespace and LabelClaimName are the namespace and the name of the claim. As a label, a name that is too long is cut. The annotation
	// LabelClaimName has the whole name.
	LabelClaimNamespace = "storage.liqo.io/virtual-pvc-namespace"
	LabelClaimName      = "storage.liqo.io/virtual-pvc-name"
	// AnnotationClaimUID is the UID of the claim. It distinguishes the backing claims of two claims that had the same name.
	AnnotationClaimUID = "storage.liqo.io/virtual-pvc-uid"
	// AnnotationRetained ("true") marks a backing claim that stays although its virtual volume is gone.
	AnnotationRetained = "storage.liqo.io/retained"
	// annotationNode is the selected node that was last written to the backing claim. A driver that can't create a volume for this node removes
	// AnnotationSelectedNode, but not this annotation.
	annotationNode = "storage.liqo.io/selected-node"
	// annotationRefused is the resource version of the claim when the driver refused annotationNode. The refusal is passed on to that version only: a later
	// version may have the same node because the scheduler selected it again.
	annotationRefused = "storage.liqo.io/refused-at"
)

// AnnotationMove on a claim holds its virtual volume back: the backing claim is created, and pods wait until its data is complete. Its value is the name of
// the volume that the data comes from. On a virtual volume, the annotation has the record of the move of its data, see package move.
const AnnotationMove = "storage.liqo.io/move"

// annotationEphemeral ("true"), on a virtual volume, says that its data lives as long as a pod.
const annotationEphemeral = "storage.liqo.io/ephemeral"

// Annotations of Kubernetes.
const (
	// AnnotationSelectedNode, on a claim, is the node that the scheduler selected for its first pod.
	AnnotationSelectedNode = "volume.kubernetes.io/selected-node"
	// annotationProvisioner, on a claim, is the provisioner that Kubernetes asked for a volume.
	annotationProvisioner = "volume.kubernetes.io/storage-provisioner"
	// annotationProvisionedBy, on a volume, is the provisioner that created it.
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
	// The annotations of a default StorageClass; the second is that of old releases, which Kubernetes still respects.
	annotationDefaultClass    = "storageclass.kubernetes.io/is-default-class"
	annotationOldDefaultClass = "storageclass.beta.kubernetes.io/is-default-class"
)

// volumePrefix precedes the UID of the claim in the name of its virtual volume.
const volumePrefix = "pvc-"

// VolumeName returns the name of the virtual volume of the claim with that UID.
func VolumeName(uid types.UID) string { return volumePrefix + string(uid) }

// VolumeUID returns the UID of the claim that a virtual volume was created for. It is empty if the volume is not a virtual volume.
func VolumeUID(volume *corev1.PersistentVolume) types.UID {
	uid, ok := strings.CutPrefix(volume.Name, volumePrefix)
	if !ok || volume.Annotations[annotationProvisionedBy] != Provisioner {
		return ""
	}
	return types.UID(uid)
}

// Describe returns a text about a virtual volume and the claim that it is reserved for. It is empty if the volume is not a virtual volume.
func Describe(volume *corev1.PersistentVolume) string {
	if VolumeUID(volume) == "" {
		return ""
	}
	size := volume.Spec.Capacity[corev1.ResourceStorage]
	if ref := volume.Spec.ClaimRef; ref != nil && volume.Status.Phase != corev1.VolumeReleased {
		return fmt.Sprintf("PersistentVolumeClaim %s in namespace %s has a volume of Liqo, %s", ref.Name, ref.Namespace, size.String())
	}
	return fmt.Sprintf("PersistentVolume %s is a retained volume of Liqo, %s", volume.Name, size.String())
}

// InProvider tells whether a volume is a virtual volume whose data is in a provider, and outlives pods.
func InProvider(volume *corev1.PersistentVolume) bool {
	return VolumeUID(volume) != "" && volume.Labels[api.LabelRemoteClusterID] != "" && volume.Annotations[annotationEphemeral] != api.True
}

// Provisioned tells whether Kubernetes asked the provisioner of Liqo for the volume of a claim.
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

// ClassOf returns the StorageClass of a claim, nil if it names none or one that does not exist.
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

// Uses tells whether a pod mounts the claim with that name of its namespace.
func Uses(pod *corev1.Pod, claim string) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim || v.Ephemeral != nil && pod.Name+"-"+v.Name == claim {
			return true
		}
	}
	return false
}

// Ephemeral tells whether a claim was created for a generic ephemeral volume of a pod. The pod's copy in a provider has a claim of its own.
func Ephemeral(claim *corev1.PersistentVolumeClaim) bool {
	owner := metav1.GetControllerOf(claim)
	return owner != nil && owner.APIVersion == "v1" && owner.Kind == "Pod"
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

// The maximum length of the value of a label, and the number of digits of the hash that keeps cut values apart.
const (
	maxLabel   = 63
	hashLength = 8
)

// labelValue returns text, or, if it is too long for the value of a label, a cut text that ends in the hash of text.
func labelValue(text string) string {
	if len(text) <= maxLabel {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	suffix := "-" + hex.EncodeToString(sum[:])[:hashLength]
	return strings.TrimRight(text[:maxLabel-len(suffix)], "-.") + suffix
}
