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

// Record is what a move has to know of its beginning and of its copy. It is in an annotation of the volume with the old data, which exists until the move
// has ended.
type Record struct {
	// Claim is the UID of the claim that the move replaces.
	Claim types.UID `json:"claim"`
	// Node is the target node.
	Node string `json:"node"`
	// Provider is the cluster ID of the provider of that node, empty for this cluster.
	Provider string `json:"provider,omitempty"`
	// KeepSource keeps the old data.
	KeepSource bool `json:"keepSource,omitempty"`
	// Policy is the reclaim policy of the volume before the move.
	Policy corev1.PersistentVolumeReclaimPolicy `json:"policy"`
	// Labels, Annotations, Owners and Spec are those of the claim before the move, without what Kubernetes and Liqo wrote.
	Labels      map[string]string                `json:"labels,omitempty"`
	Annotations map[string]string                `json:"annotations,omitempty"`
	Owners      []metav1.OwnerReference          `json:"owners,omitempty"`
	Spec        corev1.PersistentVolumeClaimSpec `json:"spec"`
	// Copy is the UID of the claim whose data was verified, empty before. Checksum is the checksum of that data.
	Copy     types.UID `json:"copy,omitempty"`
	Checksum string    `json:"checksum,omitempty"`
}

// TargetOf returns the cluster ID of the provider that the data of a volume is being moved to, empty if there is none. A claim there has the copy. After an
// error, the copy may be in any cluster.
func TargetOf(volume *corev1.PersistentVolume) (string, error) {
	record, err := recordOf(volume)
	if err != nil || record == nil {
		return "", err
	}
	return record.Provider, nil
}

// newRecord returns the record of a move to a node that begins.
func newRecord(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, node *corev1.Node, r *Request) *Record {
	out := &Record{
		Claim: claim.UID, Node: r.Node, Provider: storage.ProviderOf(node), KeepSource: r.KeepSource, Policy: volume.Spec.PersistentVolumeReclaimPolicy,
		Labels: claim.Labels, Owners: claim.OwnerReferences, Spec: *claim.Spec.DeepCopy(),
	}
	out.Spec.VolumeName = ""
	if out.Annotations = maps.Clone(claim.Annotations); out.Annotations != nil {
		maps.DeleteFunc(out.Annotations, func(key, _ string) bool { return ofKubernetes(key) || key == storage.AnnotationMove })
	}
	return out
}

// ofKubernetes tells whether Kubernetes writes an annotation of a claim while it binds it.
func ofKubernetes(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return slices.Contains([]string{"pv.kubernetes.io", "volume.kubernetes.io", "volume.beta.kubernetes.io"}, prefix)
}

// recordOf returns the record of a volume, nil if no move of its data is under way.
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

// noted returns a copy of the volume with the record; nil removes it.
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

// Result is what a pod that copies data reports when it succeeded: a checksum of everything in the volume, and its amount.
type Result struct {
	// Checksum covers names, contents and metadata.
	Checksum string `json:"checksum"`
	Files    int64  `json:"files"`
	Bytes    int64  `json:"bytes"`
}
