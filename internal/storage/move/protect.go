package move

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// annotationReplaced, on a namespace, lists the claims that commands are about to replace, as CLAIM=VERSION, separated by commas. VERSION is the
// resourceVersion of the claim. annotationKept, on a claim, changes that version.
const (
	annotationReplaced = "storage.liqo.io/replaced-claims"
	annotationKept     = "storage.liqo.io/move-canceled"
)

// protectTime is how long a command waits until the API server refuses other claims of the name.
const protectTime = time.Minute

// movingClaims returns the entries of storage.AnnotationMovingClaims, by the name of the claim.
func movingClaims(namespace *corev1.Namespace) map[string]string {
	return entriesOf(namespace, storage.AnnotationMovingClaims)
}

// entriesOf returns the entries of an annotation of a namespace, by the name of the claim.
func entriesOf(namespace *corev1.Namespace, annotation string) map[string]string {
	out := map[string]string{}
	if namespace == nil {
		return out
	}
	for entry := range strings.SplitSeq(namespace.Annotations[annotation], ",") {
		if claim, data, found := strings.Cut(entry, "="); found {
			out[claim] = data
		}
	}
	return out
}

// withEntry returns a copy of the namespace whose annotation has another entry for the claim. Empty data removes the entry.
func (s *State) withEntry(namespace *corev1.Namespace, annotation, data string) *corev1.Namespace {
	entries := entriesOf(namespace, annotation)
	if delete(entries, s.Name); data != "" {
		entries[s.Name] = data
	}
	var list []string
	for _, claim := range slices.Sorted(maps.Keys(entries)) {
		list = append(list, claim+"="+entries[claim])
	}
	out := namespace.DeepCopy()
	if delete(out.Annotations, annotation); len(list) > 0 {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, annotation, strings.Join(list, ","))
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
	return Step{Action: Patch, Object: m.withEntry(m.Home, storage.AnnotationMovingClaims, m.entry()), Old: m.Home, Phase: phase, Why: "reserving the name of the claim for the move"}, true
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

// remove deletes the claim of the name. Every such deletion uses remove, because it first waits until no other claim can get the name before the move creates
// the next one.
func (m *move) remove(phase Phase, why string) Step {
	if step, due := m.awaitRefusal(phase); due {
		return step
	}
	return Step{Action: Delete, Object: m.Claim, Unchanged: true, Phase: phase, Why: why}
}

// declare records in the old volume and in the namespace which version of the claim the move is about to delete. Kubernetes has no transaction over several
// objects, so another command may cancel the move between the decision to delete the claim and the deletion: it gives the old volume its reclaim policy back, and
// permits other claims of the name. That command first changes a claim whose version is declared, see keepClaim, and then the deletion fails. If it has
// decided before the declaration, its own write fails, because the declaration has changed the volume and the namespace.
func (m *move) declare() (step Step, due bool) {
	version := m.Claim.ResourceVersion
	if retained := m.source.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain; m.record.Withdrawn != version || !retained {
		record := *m.record
		record.Withdrawn = version
		step := m.note(&record, "recording which version of the claim is replaced")
		if next, ok := step.Object.(*corev1.PersistentVolume); ok {
			next.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}
		step.Phase = Preparing
		return step, true
	}
	if entriesOf(m.Home, annotationReplaced)[m.Name] == version {
		return Step{}, false
	}
	return Step{Action: Patch, Object: m.withEntry(m.Home, annotationReplaced, version), Old: m.Home, Phase: Preparing, Why: "recording in the namespace which version of the claim is replaced"}, true
}

// keepClaim changes a claim that another command is about to delete in this version, so that the deletion fails. withdrawn is the version in the record. due is
// false once no command has declared the present version.
func (s *State) keepClaim(withdrawn string, phase Phase) (step Step, due bool) {
	version := s.Claim.ResourceVersion
	declared := version != "" && (withdrawn == version || entriesOf(s.Home, annotationReplaced)[s.Name] == version)
	if !declared && s.Claim.Annotations[annotationKept] == "" {
		return Step{}, false
	}
	next := s.Claim.DeepCopy()
	if delete(next.Annotations, annotationKept); s.Claim.Annotations[annotationKept] == "" {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, annotationKept, api.True)
	}
	return Step{Action: Patch, Object: next, Old: s.Claim, Phase: phase, Why: "keeping the claim from other commands that are about to replace it"}, true
}

// releaseName returns the step that removes the entry of the move from the annotation of the namespace. Callers use it once the claim is bound to the volume that
// has the data.
func (s *State) releaseName(phase Phase) (step Step, due bool) {
	if movingClaims(s.Home)[s.Name] == "" && entriesOf(s.Home, annotationReplaced)[s.Name] == "" {
		return Step{}, false
	}
	released := s.withEntry(s.withEntry(s.Home, annotationReplaced, ""), storage.AnnotationMovingClaims, "")
	return Step{Action: Patch, Object: released, Old: s.Home, Phase: phase, Why: "permitting claims with the name of the claim again"}, true
}

// leftover handles an entry in the annotation of the namespace for which no volume has the record of a move.
func (s *State) leftover() (step Step, due bool) {
	volume, _, _ := strings.Cut(movingClaims(s.Home)[s.Name], "/")
	switch claim := s.Claim; {
	case volume == "":
		return Step{}, false
	case claim != nil && claim.DeletionTimestamp == nil && claim.Status.Phase == corev1.ClaimBound:
		if step, due := s.keepClaim("", Preparing); due {
			return step, true
		}
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
