package move

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/storage"
)

// Next decides what to do about a move. The same state gives the same step, whatever happened before, and the sequence of steps is finite: a command that is
// killed between any two steps goes on when it runs again.
//
// The old data is untouched until a copy of equal checksum belongs to the claim, and the claim stays. Until then no pod can mount the claim. Moving the
// claim to where the old data is gives an unfinished move up.
func Next(s State) Step {
	source := s.underway()
	if source == nil {
		return s.start()
	}
	record, err := recordOf(source)
	if err != nil {
		return Step{Err: err}
	}
	m := &move{State: &s, source: source, record: record}
	node := s.node(s.Node)
	switch {
	case node == nil:
		return fail("--target-node %s: there is no such node: name one of %s", s.Node, strings.Join(s.nodeNames(), ", "))
	case admits(source, node):
		return m.back()
	case record.Node != s.Node:
		return fail("--target-node %s: a move of this claim to node %s is unfinished: finish it with --target-node %s, or give it up by moving the claim to "+
			"where its data is", s.Node, record.Node, record.Node)
	case record.Copy != "":
		return m.finish()
	}
	return m.forward(node)
}

// forward replaces the claim by one that waits for its data, and then copies the data.
func (m *move) forward(target *corev1.Node) Step {
	claim := m.Claim
	switch {
	case claim != nil && (claim.UID == m.record.Claim || claim.Spec.VolumeName == m.source.Name): // the second one: giving the move up was cut off
		return m.withdraw()
	case m.source.Spec.ClaimRef != nil && m.source.Spec.ClaimRef.UID == "":
		// Kubernetes would bind any claim of the name to a volume that is reserved for it.
		next := m.source.DeepCopy()
		next.Spec.ClaimRef.UID = m.record.Claim
		return Step{Action: Patch, Object: next, Old: m.source, Phase: Preparing, Why: "keeping the old volume from the claim that waits for its data"}
	case claim == nil:
		return Step{Action: Create, Object: m.held(), Phase: Preparing, Why: "reserving a volume on node " + m.record.Node}
	case claim.DeletionTimestamp != nil:
		return m.ending(Preparing)
	case claim.Spec.VolumeName != "" || className(&claim.Spec) != className(&m.record.Spec):
		return m.replaced()
	case claim.Annotations[storage.AnnotationMove] != m.source.Name:
		return m.hold("holding the claim that was created anew")
	case claim.Annotations[storage.AnnotationSelectedNode] != m.record.Node:
		// Only the driver removes the node: it can't create a volume there.
		step := m.hold("selecting node " + m.record.Node + " again")
		step.Err = fmt.Errorf("no volume of the size of the claim can be created for node %s: make room there and run the command again, or give the move up by "+
			"moving the claim to where its data is", m.record.Node)
		return step
	}
	return m.transfer(target)
}

// replaced returns the error about a claim that somebody created during the move, and that can't be the target of the data.
func (m *move) replaced() Step {
	return fail("PersistentVolumeClaim %s in namespace %s was created anew during the move, with StorageClass %q and volume %q: delete it, and run the "+
		"command again", m.Name, m.Namespace, className(&m.Claim.Spec), m.Claim.Spec.VolumeName)
}

// fits tells whether Kubernetes would bind a claim without a volume, which somebody created anew during the move, to the old volume.
func (m *move) fits(claim *corev1.PersistentVolumeClaim) bool {
	wanted, have := claim.Spec.Resources.Requests[corev1.ResourceStorage], m.source.Spec.Capacity[corev1.ResourceStorage]
	modes := !slices.ContainsFunc(claim.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(m.source.Spec.AccessModes, mode)
	})
	return claim.Spec.VolumeName == "" && className(&claim.Spec) == m.source.Spec.StorageClassName && wanted.Cmp(have) <= 0 && modes &&
		modeOf(claim.Spec.VolumeMode) == modeOf(m.source.Spec.VolumeMode)
}

// withdraw deletes the old claim. Kubernetes holds it as long as a pod mounts it.
func (m *move) withdraw() Step {
	users := strings.Join(m.users(anywhere), ", ")
	switch {
	case m.Claim.DeletionTimestamp != nil:
		return m.ending(Preparing)
	case users != "":
		return fail("PersistentVolumeClaim %s in namespace %s is mounted by pods %s: delete them, and run the command again", m.Name, m.Namespace, users)
	}
	return Step{Action: Delete, Object: m.Claim, Phase: Preparing, Why: "replacing the claim"}
}

// ending waits until a claim that is being deleted is gone. Each scheduled pod that mounts it holds it, also one that has ended, and also one of the move.
func (m *move) ending(phase Phase) Step {
	for i := range m.Pods {
		if pod := &m.Pods[i]; m.ours(pod) && pod.DeletionTimestamp == nil && pod.Namespace == m.Namespace && storage.Uses(pod, m.Name) {
			return Step{Action: Delete, Object: pod, Phase: phase, Why: "removing " + pod.Name + ", which mounts a claim that is being deleted"}
		}
	}
	if users := m.users(scheduled); len(users) > 0 {
		return wait(phase, "pods %s, which mount the claim that is being deleted, to be deleted", strings.Join(users, ", "))
	}
	return wait(phase, "PersistentVolumeClaim %s to be deleted", m.Name)
}

// hold marks the claim with the name as the one that waits for its data.
func (m *move) hold(why string) Step {
	next := m.Claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, storage.AnnotationMove, m.source.Name)
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, storage.AnnotationSelectedNode, m.record.Node)
	return Step{Action: Patch, Object: next, Old: m.Claim, Phase: Preparing, Why: why}
}

// transfer copies the data to the store, and from there to the new volume, and then compares the checksums of both volumes.
func (m *move) transfer(target *corev1.Node) Step {
	from, ok := m.sourceEnd()
	if !ok {
		return wait(Preparing, "a virtual node of cluster %s, which has the data", providerOf(m.source))
	}
	// The scheduler holds pods back, but a pod can name its node.
	if users := m.users(scheduled); len(users) > 0 {
		return fail("pods %s in namespace %s mount the claim during the move: delete them, and run the command again", strings.Join(users, ", "), m.Namespace)
	}
	to := m.targetEnd(target, m.Claim)
	repository, step, due := m.prepare(from, to)
	if due {
		return step
	}
	sent, step := m.run(Copying, m.moverPod(sender, from, repository))
	if sent == nil {
		return step
	}
	sending := m.part(from.namespace, sender)
	restoring := m.moverPod(receiver, to, m.Claim.UID)
	metav1.SetMetaDataAnnotation(&restoring.ObjectMeta, annotationSender, string(sending.UID))
	received, step := m.run(Restoring, restoring)
	if received == nil {
		return step
	}
	if *sent != *received {
		// Either of them may have read the data wrongly. Without the sender, the receiver is deleted too: it belongs to that sender.
		return Step{
			Action: Delete, Object: sending, Phase: Restoring, Why: "the copy is not equal",
			Err: fmt.Errorf("the copy on node %s has checksum %s in %d files and %d bytes, the data has %s in %d files and %d bytes: the data is kept; run the "+
				"command again to copy it once more", m.record.Node, received.Checksum, received.Files, received.Bytes, sent.Checksum, sent.Files, sent.Bytes),
		}
	}
	record := *m.record
	record.Copy, record.Checksum = m.Claim.UID, sent.Checksum
	step = m.note(&record, "the checksums of both volumes are equal")
	step.Result = sent
	return step
}

// note writes a new record.
func (m *move) note(record *Record, why string) Step {
	next, err := noted(m.source, record)
	if err != nil {
		return Step{Err: err}
	}
	return Step{Action: Patch, Object: next, Old: m.source, Phase: Finishing, Why: why}
}

// prepare creates the store and everything that pods need. due is false once the store is ready; then repository is the UID of its claim.
func (m *move) prepare(from, to end) (repository types.UID, step Step, due bool) {
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values([]string{m.Namespace, from.namespace, to.namespace}))) {
		if !slices.ContainsFunc(m.Secrets, func(s corev1.Secret) bool { return m.ours(&s) && s.Namespace == namespace }) {
			return "", creating(m.credentials(namespace), "creating the credentials of the copy"), true
		}
	}
	if !slices.ContainsFunc(m.Services, func(s corev1.Service) bool { return m.ours(&s) }) {
		return "", creating(m.service(), "creating the address of the copy"), true
	}
	i := slices.IndexFunc(m.Claims, func(c corev1.PersistentVolumeClaim) bool { return m.ours(&c) })
	if i < 0 {
		return "", creating(m.repository(), "creating the volume of the copy"), true
	}
	have := m.part(m.Namespace, store)
	switch {
	case have == nil:
		return "", creating(m.storePod(), "starting the store of the copy"), true
	case have.DeletionTimestamp != nil:
		return "", wait(Preparing, "pod %s to be deleted", have.Name), true
	case have.Status.Phase == corev1.PodFailed || restarts(have) > maxRestarts:
		return "", m.renew(have, Preparing), true
	case !slices.ContainsFunc(have.Status.Conditions, isReady):
		return "", wait(Preparing, "pod %s to be ready: %s", have.Name, trouble(have)), true
	}
	return m.Claims[i].UID, Step{}, false
}

func creating(obj storage.Object, why string) Step {
	return Step{Action: Create, Object: obj, Phase: Preparing, Why: why}
}

func isReady(c corev1.PodCondition) bool {
	return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
}

// credentials returns a Secret for the namespace, with the data of the one that exists.
func (m *move) credentials(namespace string) *corev1.Secret {
	out := m.secret(namespace)
	for i := range m.Secrets {
		if s := &m.Secrets[i]; m.ours(s) {
			out.Data = s.Data
		}
	}
	return out
}

// run runs a pod that copies data. The result is nil as long as the step has to be done first.
func (m *move) run(phase Phase, want *corev1.Pod) (*Result, Step) {
	have := m.part(want.Namespace, want.Labels[labelRole])
	switch {
	case have == nil:
		return nil, Step{Action: Create, Object: want, Phase: phase, Why: "starting pod " + want.Name}
	case have.DeletionTimestamp != nil:
		return nil, wait(phase, "pod %s to be deleted", have.Name)
	case have.Annotations[annotationTarget] != want.Annotations[annotationTarget]:
		return nil, Step{Action: Delete, Object: have, Phase: phase, Why: "pod " + have.Name + " has written to a volume that is gone"}
	case have.Annotations[annotationSender] != want.Annotations[annotationSender]:
		return nil, Step{Action: Delete, Object: have, Phase: phase, Why: "pod " + have.Name + " has read an earlier copy"}
	case have.Status.Phase == corev1.PodFailed || restarts(have) > maxRestarts:
		return nil, m.renew(have, phase)
	}
	if have.Status.Phase == corev1.PodSucceeded {
		result, err := resultOf(have)
		if err != nil {
			return nil, Step{Action: Delete, Object: have, Phase: phase, Why: "it reports no result", Err: err}
		}
		if result != nil {
			return result, Step{}
		}
	}
	step := wait(phase, "pod %s to end: %s", have.Name, trouble(have))
	step.Pod = have
	return nil, step
}

// renew deletes a pod that fails, and ends the command. The same command creates it again.
func (m *move) renew(pod *corev1.Pod, phase Phase) Step {
	return Step{Action: Delete, Object: pod, Phase: phase, Why: "the pod fails", Err: fmt.Errorf(
		"pod %s in namespace %s fails: %s. The data is where it was; run the command again to go on, or give the move up by moving the claim to where its data is",
		pod.Name, pod.Namespace, trouble(pod))}
}

// finish opens the claim for pods, and only then releases the old data.
func (m *move) finish() Step {
	claim := m.Claim
	if claim == nil || claim.UID != m.record.Copy {
		record := *m.record
		record.Copy, record.Checksum = "", ""
		return m.note(&record, "the claim with the copy is gone: the data is copied again")
	}
	if step, due := m.tidy(Finishing); due {
		return step
	}
	volume := m.volume(storage.VolumeName(claim.UID))
	switch {
	case claim.DeletionTimestamp != nil: // the copy ends with it, so the old data is needed again
		return m.ending(Finishing)
	case claim.Annotations[storage.AnnotationMove] != "":
		next := claim.DeepCopy()
		delete(next.Annotations, storage.AnnotationMove)
		return Step{Action: Patch, Object: next, Old: claim, Phase: Finishing, Why: "letting pods use the claim"}
	case volume == nil || claim.Spec.VolumeName != volume.Name || claim.Status.Phase != corev1.ClaimBound:
		return wait(Finishing, "the claim to be bound to its new volume")
	case volume.Spec.PersistentVolumeReclaimPolicy != m.record.Policy:
		next := volume.DeepCopy()
		next.Spec.PersistentVolumeReclaimPolicy = m.record.Policy
		return Step{Action: Patch, Object: next, Old: volume, Phase: Finishing, Why: "setting the reclaim policy of the old volume"}
	}
	step := m.note(nil, "keeping the old data in PersistentVolume "+m.source.Name)
	if next, ok := step.Object.(*corev1.PersistentVolume); ok && !m.record.KeepSource && !m.KeepSource {
		next.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		step.Why = "releasing the old data"
	}
	return step
}

// back gives the move up: the claim gets its old volume again.
func (m *move) back() Step {
	claim := m.Claim
	if m.record.Copy != "" {
		return fail("--target-node %s: the move of this claim to node %s is complete but for the release of the old data: finish it with --target-node %s, then "+
			"move the claim back", m.Node, m.record.Node, m.record.Node)
	}
	if step, due := m.tidy(Returning); due {
		return step
	}
	ref := m.source.Spec.ClaimRef
	switch {
	case claim != nil && claim.DeletionTimestamp != nil:
		return m.ending(Returning)
	case claim != nil && claim.Spec.VolumeName == m.source.Name && claim.Status.Phase == corev1.ClaimBound:
		step := m.note(nil, "the claim has its old volume")
		if next, ok := step.Object.(*corev1.PersistentVolume); ok {
			next.Spec.PersistentVolumeReclaimPolicy = m.record.Policy
		}
		step.Phase = Returning
		return step
	case claim != nil && claim.Annotations[storage.AnnotationMove] == m.source.Name && claim.Spec.VolumeName == "":
		return Step{Action: Delete, Object: claim, Phase: Returning, Why: "removing the claim that waits for its data"}
	case claim != nil && claim.Spec.VolumeName != m.source.Name && !m.fits(claim):
		return m.replaced()
	case ref != nil && ref.UID != "" && (claim == nil || ref.UID != claim.UID):
		next := m.source.DeepCopy()
		next.Spec.ClaimRef.UID, next.Spec.ClaimRef.ResourceVersion = "", ""
		return Step{Action: Patch, Object: next, Old: m.source, Phase: Returning, Why: "reserving the old volume for the claim"}
	case claim != nil: // Kubernetes binds each claim of the name, also one that somebody created anew
		return wait(Returning, "the claim to be bound to its old volume")
	}
	again := m.restored()
	again.Spec.VolumeName = m.source.Name
	return Step{Action: Create, Object: again, Phase: Returning, Why: "creating the claim with its old volume"}
}
