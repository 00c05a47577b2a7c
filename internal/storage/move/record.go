package move

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/storage"
)

// Record describes a move. It is in an annotation of the volume with the old data, which exists until the move has ended.
type Record struct {
	// Claim is the UID of the claim that the move replaces.
	Claim types.UID `json:"claim"`
	// Node is the target node.
	Node string `json:"node"`
	// Provider is the cluster ID of the provider of that node, empty for this cluster.
	Provider string `json:"provider,omitempty"`
	// Image is the image of the move's pods. A command of another version may resume the move and create pods with another image.
	Image string `json:"image,omitempty"`
	// KeepSource keeps the old data.
	KeepSource bool `json:"keepSource,omitempty"`
	// Policy is the reclaim policy of the volume before the move.
	Policy corev1.PersistentVolumeReclaimPolicy `json:"policy"`
	// Labels, Annotations, Owners and Spec are those of the claim before the move, without the values that Kubernetes and Liqo wrote.
	Labels      map[string]string                `json:"labels,omitempty"`
	Annotations map[string]string                `json:"annotations,omitempty"`
	Owners      []metav1.OwnerReference          `json:"owners,omitempty"`
	Spec        corev1.PersistentVolumeClaimSpec `json:"spec"`
	// Managers are the other field managers of the claim before the move, which get their fields back after the claim was created again.
	Managers []metav1.ManagedFieldsEntry `json:"managers,omitempty"`
	// Capacity is the size of the volume if the claim requests less, empty otherwise. The new volume gets at least that size.
	Capacity string `json:"capacity,omitempty"`
	// Copy is the UID of the claim whose copy was verified, empty before. Checksum is the checksum of the copy.
	Copy     types.UID `json:"copy,omitempty"`
	Checksum string    `json:"checksum,omitempty"`
	// Backing is the UID of the claim in the provider that has the verified copy. It is empty if the target is this cluster.
	Backing types.UID `json:"backing,omitempty"`
	// Withdrawn is the resourceVersion of the claim that a command is about to delete, empty before.
	Withdrawn string `json:"withdrawn,omitempty"`
	// Live is not nil if the data is copied while pods use it.
	Live *Live `json:"live,omitempty"`
}

// Live holds the state of a move that copies data while pods use it.
type Live struct {
	// UID is the UID in the name of the new volume. It is empty once that volume is no longer needed.
	UID types.UID `json:"uid,omitempty"`
	// Owner is the owner of the pods.
	Owner Owner `json:"owner"`
}

// TargetOf returns the cluster ID of the provider to which the data of a volume is being moved. It is empty if there is no such move, or if the target is this
// cluster. After an error, the copy may be in any cluster.
func TargetOf(volume *corev1.PersistentVolume) (string, error) {
	record, err := recordOf(volume)
	if err != nil || record == nil {
		return "", err
	}
	return record.Provider, nil
}

// CopyOf returns the name of the new volume of a live move. Liqo creates the new volume before it replaces the claim. volume is the one with the old data. The
// result is empty if no live move of it is in progress.
func CopyOf(volume *corev1.PersistentVolume) string {
	record, err := recordOf(volume)
	if err != nil || record == nil || record.Live == nil || record.Live.UID == "" {
		return ""
	}
	return storage.VolumeName(record.Live.UID)
}

// NeedsOwners reports whether the next step depends on Deployments and StatefulSets: the first one does, and all of a live move.
func (s *State) NeedsOwners() bool {
	source := s.underway()
	if source == nil {
		return true
	}
	record, err := recordOf(source)
	return err == nil && record.Live != nil
}

// newRecord returns the record of a new move.
func newRecord(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, node *corev1.Node, r *Request) *Record {
	out := &Record{
		Claim: claim.UID, Node: r.Node, Provider: storage.ProviderOf(node), Image: r.Image, KeepSource: r.KeepSource,
		Policy: volume.Spec.PersistentVolumeReclaimPolicy,
		Labels: claim.Labels, Owners: claim.OwnerReferences, Spec: *claim.Spec.DeepCopy(), Managers: managersOf(claim),
	}
	out.Spec.VolumeName = ""
	requested, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], volume.Spec.Capacity[corev1.ResourceStorage]
	if requested.Cmp(has) < 0 {
		out.Capacity = has.String()
	}
	if out.Annotations = maps.Clone(claim.Annotations); out.Annotations != nil {
		maps.DeleteFunc(out.Annotations, func(key, _ string) bool {
			return ofKubernetes(key) || key == storage.AnnotationMove || key == storage.AnnotationAhead || key == storage.AnnotationCapacity ||
				key == annotationKept
		})
	}
	return out
}

// ofKubernetes reports whether Kubernetes writes this annotation when it binds a claim.
func ofKubernetes(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return slices.Contains([]string{"pv.kubernetes.io", "volume.kubernetes.io", "volume.beta.kubernetes.io"}, prefix)
}

// recordOf returns the record in a volume, nil if its data is not being moved.
func recordOf(volume *corev1.PersistentVolume) (*Record, error) {
	text := volume.Annotations[storage.AnnotationMove]
	if text == "" {
		return nil, nil
	}
	out := &Record{}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		return nil, fmt.Errorf("annotation %s of PersistentVolume %s is no record of a move: remove it if no move is under way: %w",
			storage.AnnotationMove, volume.Name, err)
	}
	return out, nil
}

// noted returns a copy of the volume with the record. If record is nil, noted removes the record.
func noted(volume *corev1.PersistentVolume, record *Record) (*corev1.PersistentVolume, error) {
	out := volume.DeepCopy()
	if record == nil {
		delete(out.Annotations, storage.AnnotationMove)
		return out, nil
	}
	text, err := json.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("writing the record of a move: %w", err)
	}
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, storage.AnnotationMove, string(text))
	return out, nil
}

// Result is the result of a pod that has copied the data: the checksum of everything in the volume, and its amount.
type Result struct {
	// Checksum covers names, contents and metadata.
	Checksum string `json:"checksum"`
	Files    int64  `json:"files"`
	Bytes    int64  `json:"bytes"`
}

// capacity returns the size that the new volume needs, for messages.
func (m *move) capacity() string {
	if m.record.Capacity != "" {
		return m.record.Capacity
	}
	size := m.record.Spec.Resources.Requests[corev1.ResourceStorage]
	return size.String()
}
