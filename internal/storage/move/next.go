package move

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// Next returns the next step of a move. The same state always results in the same step, and the sequence of steps is finite. If a command is killed between two
// steps, it resumes the move when it runs again.
//
// The old data is unchanged until a copy with an equal checksum belongs to the claim. Until then, no pod can mount the claim. A user cancels an unfinished move
// by moving the claim to the node that has the old data.
//
// A live move copies the data while pods use the claim. Then it stops the owner of these pods, and from then on no pod can mount the claim. The move restarts
// the owner before the command ends, even if it is cancelled.
func Next(s State) Step {
	step := s.next()
	if apart := s.partition(); step.Action == Nothing && step.Err == nil && !step.Done && apart != "" {
		step.Why += ". " + apart
	}
	owner, stopped, err := s.stoppedOwner()
	if err != nil || owner == nil {
		return step
	}
	step.Urgent = true
	if owner.replicas != stopped.To {
		return step
	}
	if step.Object == nil || step.Object.GetUID() != owner.obj.GetUID() { // this step does not restart it
		step.Stopped = fmt.Sprintf("%s has %d replicas instead of %d until the move ends: run the same command again, or move the claim to where its data is", owner,
			owner.replicas, stopped.Replicas)
		for _, err := range []*error{&step.Err, &step.Late} {
			if *err != nil {
				*err = fmt.Errorf("%w. %s", *err, step.Stopped)
			}
		}
	}
	return step
}

func (s *State) next() Step {
	source := s.underway()
	if source == nil {
		return s.start()
	}
	record, err := recordOf(source)
	if err != nil {
		return Step{Err: err}
	}
	m := &move{State: s, source: source, record: record}
	node := s.node(s.Node)
	switch {
	case node == nil:
		return fail("--target-node %s: there is no such node: name one of %s", s.Node, strings.Join(s.nodeNames(), ", "))
	case admits(source, node):
		return m.back()
	case record.Node != s.Node:
		return fail("--target-node %s: a move of this claim to node %s is unfinished: finish it with --target-node %s, or cancel it by moving the claim to "+
			"where its data is", s.Node, record.Node, record.Node)
	case record.Copy != "":
		return m.finish()
	}
	return m.forward(node)
}

// forward replaces the claim by one that waits for its data, and then copies the data.
func (m *move) forward(target *corev1.Node) Step {
	claim := m.Claim
	waits := claim != nil && claim.Annotations[storage.AnnotationMove] == m.source.Name
	old := claim != nil && (claim.UID == m.record.Claim || claim.Spec.VolumeName == m.source.Name) // the second case: an unfinished cancellation recreated the claim with the old volume
	if old && claim.DeletionTimestamp == nil && m.record.Live == nil {
		if step, due := m.prepareFirst(target); due {
			return step
		}
	}
	if step, due := m.reserveName(Preparing); due {
		return step
	}
	if step, due := m.handBack(Preparing); due {
		return step
	}
	if claim != nil && claim.DeletionTimestamp == nil && !waits { // before the application is stopped
		if step, due := m.awaitRefusal(Preparing); due {
			return step
		}
	}
	if step, due := m.live(target); due {
		return step
	}
	switch {
	case old:
		return m.withdraw(target)
	case m.source.Spec.ClaimRef != nil && m.source.Spec.ClaimRef.UID == "":
		// If the claimRef has no UID, Kubernetes would bind the new claim to the old volume.
		next := m.source.DeepCopy()
		next.Spec.ClaimRef.UID = m.record.Claim
		return Step{Action: Patch, Object: next, Old: m.source, Phase: Preparing, Why: "keeping the old volume from the claim that waits for its data"}
	case claim == nil:
		return Step{Action: Create, Object: m.held(), Phase: Preparing, Why: "reserving a volume on node " + m.record.Node}
	case claim.DeletionTimestamp != nil:
		return m.ending(Preparing)
	case claim.Spec.VolumeName != "" && !m.expects(claim.Spec.VolumeName) || className(&claim.Spec) != className(&m.record.Spec):
		return m.replaced()
	case claim.Annotations[storage.AnnotationMove] != m.source.Name:
		return m.hold("holding the recreated claim")
	case claim.Annotations[storage.AnnotationSelectedNode] != m.record.Node && !m.ahead():
		// Only the driver removes this annotation, when it can't create a volume for the node.
		step := m.hold("selecting node " + m.record.Node + " again")
		step.Err = m.full()
		return step
	}
	return m.transfer(target)
}

// replaced returns the error about a claim that a user recreated during the move, and that can't receive the data.
func (m *move) replaced() Step {
	var differs []string
	if name := m.Claim.Spec.VolumeName; name != "" {
		differs = append(differs, fmt.Sprintf("spec.volumeName is %s, and must be empty", name))
	}
	if is, want := className(&m.Claim.Spec), className(&m.record.Spec); is != want {
		differs = append(differs, fmt.Sprintf("spec.storageClassName is %q, and must be %q", is, want))
	}
	return m.recreated("can't get the data", differs)
}

// unfit returns the error about a claim that a user recreated during the move, and that Kubernetes would not bind to the old volume.
func (m *move) unfit(differs []string) Step {
	return m.recreated("can't get its old volume "+m.source.Name, differs)
}

// recreated returns the error about a claim that a user recreated during the move. differs lists its wrong fields.
func (m *move) recreated(cannot string, differs []string) Step {
	cure := fmt.Sprintf("It has no volume, so no data depends on it. Delete it (kubectl -n %s delete pvc %s)", m.Namespace, m.Name)
	if volume := m.Claim.Spec.VolumeName; volume != "" {
		cure = fmt.Sprintf(`It has volume %s, which may have new data. To keep that, first run kubectl patch pv %[1]s --patch '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'. Then stop `+
			"its pods and remove the claim", volume)
	}
	return fail("PersistentVolumeClaim %s in namespace %s (UID %s) was recreated during the move and %s: %s. The data of the move is kept in PersistentVolume %s. %s, and run the command "+
		"again", m.Name, m.Namespace, m.Claim.UID, cannot, strings.Join(differs, "; "), m.source.Name, cure)
}

// misfits returns the fields that prevent Kubernetes from binding a claim, which a user recreated during the move, to the old volume.
func (m *move) misfits(claim *corev1.PersistentVolumeClaim) (out []string) {
	add := func(field string, is, must any) {
		out = append(out, fmt.Sprintf("spec.%s is %v, and must be %v", field, is, must))
	}
	have := &m.source.Spec
	if claim.Spec.VolumeName != "" {
		add("volumeName", claim.Spec.VolumeName, "empty")
	}
	if is := className(&claim.Spec); is != have.StorageClassName {
		add("storageClassName", strconv.Quote(is), strconv.Quote(have.StorageClassName))
	}
	wanted, capacity := claim.Spec.Resources.Requests[corev1.ResourceStorage], have.Capacity[corev1.ResourceStorage]
	if wanted.Cmp(capacity) > 0 {
		add("resources.requests.storage", wanted.String(), "at most "+capacity.String())
	}
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(have.AccessModes, mode) {
			add("accessModes", claim.Spec.AccessModes, fmt.Sprintf("of %v", have.AccessModes))
			break
		}
	}
	if is, must := modeOf(claim.Spec.VolumeMode), modeOf(have.VolumeMode); is != must {
		add("volumeMode", is, must)
	}
	return out
}

// withdraw deletes the old claim. Kubernetes keeps it as long as a pod mounts it.
func (m *move) withdraw(target *corev1.Node) Step {
	if m.Claim.DeletionTimestamp != nil {
		return m.ending(Preparing)
	}
	// A move that can't succeed ends here, before anything of the application is changed.
	if step, due := m.hindered(target); due {
		return step
	}
	if step, due := m.awaitRefusal(Preparing); due {
		return step
	}
	if step, due := m.declare(); due {
		return step
	}
	return m.remove(Preparing, "replacing the claim")
}

// hindered returns the step of a move that must not replace the claim now. due is false if the move may replace it.
func (m *move) hindered(target *corev1.Node) (step Step, due bool) {
	if err := m.ownedByUser(); err != nil {
		return Step{Err: err}, true
	}
	if users := strings.Join(m.users(anywhere), ", "); users != "" {
		return fail("PersistentVolumeClaim %s in namespace %s is mounted by pods %s: delete them, and run the command again", m.Name, m.Namespace, users), true
	}
	// The virtual kubelets may have confirmed everything before their clusters became unreachable.
	if problems := m.unreachable(target); len(problems) > 0 {
		return wait(Preparing, "the nodes of the move, because without them the data can't be copied once the claim is replaced: %v", errors.Join(problems...)), true
	}
	if step, due := m.taken(target, !m.ahead()); due {
		return step, true
	}
	if m.ahead() { // for its pods, this was confirmed when they were created
		return Step{}, false
	}
	return m.sourceUnproven()
}

// prepareFirst prepares the store while the claim still has its old volume, as a live move does. So the volume of the encrypted copy exists before the claim is
// deleted. A provider that is asked about the new claim afterwards counts both in its quotas: it is asked every few seconds, and the protection of the name
// takes about as long.
func (m *move) prepareFirst(target *corev1.Node) (step Step, due bool) {
	if step, due := m.hindered(target); due {
		return step, true
	}
	from, ok := m.sourceEnd()
	if !ok {
		return m.noSourceNode(), true
	}
	_, step, due = m.prepare(from, m.targetEnd(target))
	return step, due
}

// ending waits until a claim is deleted. Each scheduled pod that mounts the claim delays that, even if the pod has ended. So ending deletes the pods of the
// move.
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

// hold marks the claim as one that waits for its data.
func (m *move) hold(why string) Step {
	next := m.Claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, storage.AnnotationMove, m.source.Name)
	m.selectNode(&next.ObjectMeta)
	return Step{Action: Patch, Object: next, Old: m.Claim, Phase: Preparing, Why: why}
}

// transfer copies the data to the store and from there to the new volume. Then it compares the checksums of both volumes.
func (m *move) transfer(target *corev1.Node) Step {
	from, ok := m.sourceEnd()
	if !ok {
		return m.noSourceNode()
	}
	// The scheduler does not schedule pods that use this claim, but a pod with spec.nodeName bypasses the scheduler.
	if users := m.users(scheduled); len(users) > 0 {
		return fail("pods %s in namespace %s mount the claim during the move: delete them, and run the command again", strings.Join(users, ", "), m.Namespace)
	}
	to := m.targetEnd(target)
	shown, unproven, unsure, rejected := m.proven(from, to)
	if rejected {
		return unproven
	}
	repository, step, due := m.prepare(from, to)
	if due {
		return step
	}
	// For both pods of a live move, the claims were confirmed when the pods were created. The application is stopped now, so these pods finish while the move
	// waits.
	if unsure && (!m.ahead() || m.part(from.namespace, sender) == nil || m.part(to.namespace, receiver) == nil) {
		return unproven
	}
	if pods := m.waiting(from, to); len(pods) > 0 {
		return Step{Action: Finish, Pods: pods, Phase: Copying, Why: "copying what has changed"}
	}
	sent, step := m.run(Copying, on(m.moverPod(sender, from, repository), shown.source))
	if sent == nil {
		return step
	}
	sending := m.part(from.namespace, sender)
	restoring := on(m.moverPod(receiver, to, m.copyUID()), shown.target)
	metav1.SetMetaDataAnnotation(&restoring.ObjectMeta, annotationSender, string(sending.UID))
	received, step := m.run(Restoring, restoring)
	if received == nil {
		return step
	}
	if unsure {
		return unproven
	}
	if *sent != *received {
		// Either pod may have misread the data. The receiver is replaced together with its sender.
		if follows(sending) {
			return Step{Action: Delete, Object: sending, Phase: Restoring, Why: "the copy is not equal, so everything is copied again"}
		}
		return Step{
			Action: Delete, Object: sending, Phase: Restoring, Why: "the copy is not equal",
			Err: fmt.Errorf("the copy on node %s has checksum %s in %d files and %d bytes, the data has %s in %d files and %d bytes: the data is kept; run the "+
				"command again to copy it once more", m.record.Node, received.Checksum, received.Files, received.Bytes, sent.Checksum, sent.Files, sent.Bytes),
		}
	}
	record := *m.record
	record.Copy, record.Checksum, record.Backing = m.Claim.UID, sent.Checksum, shown.target
	step = m.note(&record, "the checksums of both volumes are equal")
	step.Result = sent
	return step
}

// note updates the record of the move.
func (m *move) note(record *Record, why string) Step {
	next, err := noted(m.source, record)
	if err != nil {
		return Step{Err: err}
	}
	return Step{Action: Patch, Object: next, Old: m.source, Phase: Finishing, Why: why}
}

// prepare creates the store and the objects that the other pods need. due is false once the store is ready; then repository is the UID of the store's claim.
func (m *move) prepare(from, to end) (repository types.UID, step Step, due bool) {
	for _, namespace := range m.namespaces(from, to) {
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
	case m.outdated(have):
		return "", m.replaceImage(have, Preparing), true
	case have.Status.Phase == corev1.PodFailed || restarts(have) > maxRestarts:
		return "", m.renew(have, Preparing), true
	case !api.PodReady(have):
		return "", wait(Preparing, "pod %s to be ready: %s%s", have.Name, trouble(have), m.unbound(&m.Claims[i])), true
	}
	return m.Claims[i].UID, Step{}, false
}

// unbound describes the claim of the store for messages while it has no volume, because only its Events name the cause then.
func (m *move) unbound(repository *corev1.PersistentVolumeClaim) string {
	if repository.Spec.VolumeName != "" {
		return ""
	}
	size := repository.Spec.Resources.Requests[corev1.ResourceStorage]
	return fmt.Sprintf(". PersistentVolumeClaim %s, of %s for an encrypted copy, has no volume yet: kubectl describe pvc %[1]s --namespace %[3]s", repository.Name, size.String(), repository.Namespace)
}

func creating(obj storage.Object, why string) Step {
	return Step{Action: Create, Object: obj, Phase: Preparing, Why: why}
}

// credentials returns a Secret for the namespace. If the move has a Secret in another namespace, both have the same data.
func (m *move) credentials(namespace string) *corev1.Secret {
	out := m.secret(namespace)
	for i := range m.Secrets {
		if s := &m.Secrets[i]; m.ours(s) {
			out.Data = s.Data
		}
	}
	return out
}

// run runs a pod that copies data. It returns the result once the pod has ended, until then the next step.
func (m *move) run(phase Phase, want *corev1.Pod) (*Result, Step) {
	have := m.part(want.Namespace, want.Labels[labelRole])
	switch {
	case have == nil:
		return nil, Step{Action: Create, Object: want, Phase: phase, Why: "starting pod " + want.Name}
	case have.DeletionTimestamp != nil:
		return nil, wait(phase, "pod %s to be deleted", have.Name)
	case m.outdated(have):
		return nil, m.replaceImage(have, phase)
	case have.Annotations[annotationTarget] != want.Annotations[annotationTarget]:
		return nil, Step{Action: Delete, Object: have, Phase: phase, Why: "pod " + have.Name + " has written to a volume that is gone"}
	case want.Annotations[annotationBacking] != "" && have.Annotations[annotationBacking] != want.Annotations[annotationBacking]:
		return nil, Step{Action: Delete, Object: have, Phase: phase, Why: "pod " + have.Name + " may have used another claim of its cluster"}
	case have.Annotations[annotationSender] != want.Annotations[annotationSender]:
		return nil, Step{Action: Delete, Object: have, Phase: phase, Why: "pod " + have.Name + " has read an earlier copy"}
	case !hasEnded(have) && (have.Status.Phase == corev1.PodFailed || restarts(have) > maxRestarts):
		return nil, m.renew(have, phase)
	}
	if hasEnded(have) {
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

// replaceImage deletes a pod that waits for another image than that of the command, so that it is created with this one.
func (m *move) replaceImage(pod *corev1.Pod, phase Phase) Step {
	return Step{Action: Delete, Object: pod, Phase: phase, Why: "replacing pod " + pod.Name + ", which waits for another image than " + m.Image}
}

// renew deletes a failing pod and ends the command with an error. When the command runs again, it creates the pod again.
func (m *move) renew(pod *corev1.Pod, phase Phase) Step {
	return Step{Action: Delete, Object: pod, Phase: phase, Why: "the pod fails", Err: fmt.Errorf(
		"pod %s in namespace %s fails: %s. The data was not moved. Run the command again to resume, or cancel the move by moving the claim to the node that still has the data",
		pod.Name, pod.Namespace, trouble(pod))}
}

// finish permits pods to use the claim, and after that releases the old data.
func (m *move) finish() Step {
	claim := m.Claim
	if claim == nil || claim.UID != m.record.Copy {
		record := *m.record
		record.Copy, record.Checksum, record.Backing = "", "", ""
		return m.note(&record, "the claim with the copy is gone: the data is copied again")
	}
	volume := m.volume(m.copyName())
	usable := claim.Spec.VolumeName != "" || claim.Annotations[storage.AnnotationMove] == "" || m.reserved(volume)
	if claim.DeletionTimestamp == nil && !usable {
		if step, due := m.copyLost(usable); due {
			return step
		}
	}
	if claim.DeletionTimestamp == nil && m.ahead() { // first, because the application waits for it
		if step, due := m.bind(claim, volume); due {
			return step
		}
	}
	if step, due := m.tidy(Finishing); due {
		return step
	}
	switch {
	case claim.DeletionTimestamp != nil: // its copy is deleted with it, so the old data is needed again
		return m.ending(Finishing)
	case claim.Annotations[storage.AnnotationMove] != "":
		next := claim.DeepCopy()
		delete(next.Annotations, storage.AnnotationMove)
		delete(next.Annotations, storage.AnnotationCapacity)
		return Step{Action: Patch, Object: next, Old: claim, Phase: Finishing, Why: "permitting pods to use the claim"}
	case volume == nil || claim.Spec.VolumeName != volume.Name || claim.Status.Phase != corev1.ClaimBound:
		return wait(Finishing, "the claim to be bound to its new volume")
	}
	if step, due := m.restart(Finishing); due {
		return step
	}
	switch {
	case volume.Spec.PersistentVolumeReclaimPolicy != m.record.Policy:
		next := volume.DeepCopy()
		next.Spec.PersistentVolumeReclaimPolicy = m.record.Policy
		return Step{Action: Patch, Object: next, Old: volume, Phase: Finishing, Why: "setting the reclaim policy of the old volume"}
	}
	if step, due := m.copyLost(usable); due {
		return step
	}
	if step, due := m.releaseName(Finishing); due {
		return step
	}
	step := m.note(nil, "keeping the old data in PersistentVolume "+m.source.Name)
	if next, ok := step.Object.(*corev1.PersistentVolume); ok && !m.record.KeepSource && !m.KeepSource {
		next.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		step.Why = "releasing the old data"
	}
	return step
}

// back cancels the move. It recreates the claim, and binds it to its old volume.
func (m *move) back() Step {
	claim := m.Claim
	if m.record.Copy != "" {
		return fail("--target-node %s: the move of this claim to node %s is complete except for the release of the old data: finish it with --target-node %s, then "+
			"move the claim back", m.Node, m.record.Node, m.record.Node)
	}
	if step, due := m.handBack(Returning); due {
		return step
	}
	if m.restored(claim) {
		if step, due := m.restart(Returning); due {
			return step
		}
	}
	if step, due := m.forced(); due {
		return step
	}
	if step, due := m.tidy(Returning); due {
		return step
	}
	if !m.restored(claim) {
		if step, due := m.reserveName(Returning); due {
			return step
		}
	}
	ref := m.source.Spec.ClaimRef
	switch {
	case claim != nil && claim.DeletionTimestamp != nil:
		return m.ending(Returning)
	case m.restored(claim):
		if step, due := m.discard(); due {
			return step
		}
		if step, due := m.keepClaim(m.record.Withdrawn, Returning); due {
			return step
		}
		if step, due := m.releaseName(Returning); due {
			return step
		}
		step := m.note(nil, "the claim has its old volume")
		if next, ok := step.Object.(*corev1.PersistentVolume); ok {
			next.Spec.PersistentVolumeReclaimPolicy = m.record.Policy
		}
		step.Phase = Returning
		return step
	case claim != nil && claim.Annotations[storage.AnnotationMove] == m.source.Name && (claim.Spec.VolumeName == "" || m.expects(claim.Spec.VolumeName)):
		return m.remove(Returning, "removing the claim that waits for its data")
	case claim != nil && claim.Spec.VolumeName != m.source.Name && len(m.misfits(claim)) > 0:
		return m.unfit(m.misfits(claim))
	case ref != nil && ref.UID != "" && (claim == nil || ref.UID != claim.UID):
		next := m.source.DeepCopy()
		next.Spec.ClaimRef.UID, next.Spec.ClaimRef.ResourceVersion = "", ""
		return Step{Action: Patch, Object: next, Old: m.source, Phase: Returning, Why: "reserving the old volume for the claim"}
	case claim != nil: // the claimRef has no UID, so Kubernetes binds any claim with that name
		return wait(Returning, "the claim to be bound to its old volume")
	}
	again := m.original()
	again.Spec.VolumeName = m.source.Name
	return Step{Action: Create, Object: again, Phase: Returning, Why: "creating the claim with its old volume"}
}
