package move

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/storage"
)

// protectTime is how long a command waits until the API server refuses other claims of the name.
const protectTime = time.Minute

// movingClaims returns the entries of storage.AnnotationMovingClaims, by the name of the claim.
func movingClaims(namespace *corev1.Namespace) map[string]string {
	out := map[string]string{}
	if namespace == nil {
		return out
	}
	for entry := range strings.SplitSeq(namespace.Annotations[storage.AnnotationMovingClaims], ",") {
		if claim, data, found := strings.Cut(entry, "="); found {
			out[claim] = data
		}
	}
	return out
}

// withEntry returns a copy of the namespace with another entry for the claim. Empty data removes the entry.
func (s *State) withEntry(data string) *corev1.Namespace {
	entries := movingClaims(s.Home)
	if delete(entries, s.Name); data != "" {
		entries[s.Name] = data
	}
	var list []string
	for _, claim := range slices.Sorted(maps.Keys(entries)) {
		list = append(list, claim+"="+entries[claim])
	}
	out := s.Home.DeepCopy()
	if delete(out.Annotations, storage.AnnotationMovingClaims); len(list) > 0 {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, storage.AnnotationMovingClaims, strings.Join(list, ","))
	}
	return out
}

// entry returns the entry of the move in the annotation of the namespace.
func (m *move) entry() string { return m.source.Name + "/" + m.record.Node }

// reserveName returns the step that names the move in an annotation of the namespace. due is false once the annotation has it.
func (m *move) reserveName(phase Phase) (step Step, due bool) {
	switch {
	case m.Home == nil:
		return fail("namespace %s does not exist", m.Namespace), true
	case movingClaims(m.Home)[m.Name] == m.entry():
		return Step{}, false
	}
	return Step{Action: Patch, Object: m.withEntry(m.entry()), Old: m.Home, Phase: phase, Why: "reserving the name of the claim for the move"}, true
}

// awaitRefusal waits until the API server refuses every claim of the name that is not one of the move. due is false once it does.
func (m *move) awaitRefusal(phase Phase) (step Step, due bool) {
	if step, due := m.reserveName(phase); due || m.Enforced {
		return step, due
	}
	step = wait(phase, "the API server to refuse other claims with the name %s", m.Name)
	step.Within = protectTime
	step.Late = fmt.Errorf("the API server does not confirm that it refuses other claims with the name %s in namespace %s (ValidatingAdmissionPolicy %s), so the claim is not "+
		"replaced: %s. Its volume and its data are unchanged. Upgrade Liqo in this cluster (liqoctl upgrade) and run the command again, or cancel the move by moving the claim to "+
		"the node that has the data", m.Name, m.Namespace, storage.PolicyMovingClaims, m.Unprotected)
	return step, true
}

// remove deletes the claim of the name. All claims of the name are deleted here, because no other claim may get the name before the move creates the next one.
func (m *move) remove(phase Phase, why string) Step {
	if step, due := m.awaitRefusal(phase); due {
		return step
	}
	return Step{Action: Delete, Object: m.Claim, Phase: phase, Why: why}
}

// releaseName returns the step that removes the entry of the move from the annotation of the namespace. Callers use it once the claim is bound to the volume that
// has the data.
func (s *State) releaseName(phase Phase) (step Step, due bool) {
	if movingClaims(s.Home)[s.Name] == "" {
		return Step{}, false
	}
	return Step{Action: Patch, Object: s.withEntry(""), Old: s.Home, Phase: phase, Why: "permitting claims with the name of the claim again"}, true
}

// leftover handles an entry in the annotation of the namespace for which no volume has the record of a move.
func (s *State) leftover() (step Step, due bool) {
	volume, _, _ := strings.Cut(movingClaims(s.Home)[s.Name], "/")
	switch claim := s.Claim; {
	case volume == "":
		return Step{}, false
	case claim != nil && claim.DeletionTimestamp == nil && claim.Status.Phase == corev1.ClaimBound:
		return s.releaseName(Preparing)
	case s.volume(volume) != nil:
		return fail("annotation %s of namespace %s says that PersistentVolumeClaim %s is being moved, but PersistentVolume %s, which has its data, has no record of a move. To get "+
			"the data back, keep it first: kubectl patch pv %[4]s --patch '{\"spec\":{\"persistentVolumeReclaimPolicy\":\"Retain\"}}'. Then let the next claim of this name have it: "+
			"kubectl patch pv %[4]s --type merge --patch '{\"spec\":{\"claimRef\":{\"uid\":null,\"resourceVersion\":null}}}'. Then create the claim with spec.volumeName %[4]s, "+
			"spec.storageClassName %[5]q and a request of at most %[6]s, wait until it is Bound, and run the command again", storage.AnnotationMovingClaims, s.Namespace, s.Name, volume,
			s.volume(volume).Spec.StorageClassName, capacityOf(s.volume(volume))), true
	}
	return fail("annotation %s of namespace %s says that PersistentVolumeClaim %s is being moved, but PersistentVolume %s, which had its data, does not exist. Find out who "+
		"deleted it, and restore the data from a backup. To permit a new claim with this name, remove its entry from the annotation", storage.AnnotationMovingClaims, s.Namespace,
		s.Name, volume), true
}

// capacityOf returns the size of a volume, for messages.
func capacityOf(volume *corev1.PersistentVolume) string {
	size := volume.Spec.Capacity[corev1.ResourceStorage]
	return size.String()
}

// Probes returns two claims for a dry run of their creation. The API server must refuse the first one and permit the second one before the claim of the name is
// deleted. Both are nil if the namespace does not name a move of the claim yet, or if there is no claim to delete.
func (s *State) Probes() (other, own *corev1.PersistentVolumeClaim) {
	source := s.underway()
	if source == nil || s.Claim == nil {
		return nil, nil
	}
	record, err := recordOf(source)
	m := &move{State: s, source: source, record: record}
	if err != nil || movingClaims(s.Home)[s.Name] != m.entry() {
		return nil, nil
	}
	return m.original(), m.held()
}
