package move

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// ahead reports whether the new volume was created before the claim is replaced.
func (m *move) ahead() bool { return m.record.Live != nil && m.record.Live.UID != "" }

// copyUID returns the UID in the names of the new volume and its backing claim.
func (m *move) copyUID() types.UID {
	if m.ahead() {
		return m.record.Live.UID
	}
	return m.Claim.UID
}

// copyName returns the name of the new volume.
func (m *move) copyName() string { return storage.VolumeName(m.copyUID()) }

// expects reports whether volume is the name of a new volume that was created before its claim.
func (m *move) expects(volume string) bool { return m.ahead() && volume == m.copyName() }

// reserved reports whether a new volume that was created before the claim is reserved for the claim.
func (m *move) reserved(volume *corev1.PersistentVolume) bool {
	return m.ahead() && volume != nil && volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID == m.Claim.UID
}

// restored reports whether the claim is bound to its old volume.
func (m *move) restored(claim *corev1.PersistentVolumeClaim) bool {
	return claim != nil && claim.DeletionTimestamp == nil && claim.Spec.VolumeName == m.source.Name && claim.Status.Phase == corev1.ClaimBound
}

// live copies the data while pods use the claim, and then stops the owner of these pods. due is false once no pod uses the claim, or if the move is not live.
func (m *move) live(target *corev1.Node) (step Step, due bool) {
	if m.record.Live == nil {
		return Step{}, false
	}
	running := m.restored(m.Claim)
	if m.ahead() && !running {
		return m.withoutVolume()
	}
	owner := m.record.Live.Owner
	w := m.workload(owner.Kind, owner.Name)
	if !running || w == nil {
		return Step{}, false
	}
	switch stopped, err := w.stopped(); {
	case err != nil:
		return Step{Err: err}, true
	case stopped != nil && stopped.Claim == m.Name:
		return m.stopping(w, stopped)
	case w.replicas <= owner.To: // a user stopped the owner
		return Step{}, false
	case !m.ahead(): // the claim was lost meanwhile, and the application runs again
		return m.stop(w)
	}
	return m.follow(target, w)
}

// withoutVolume continues the move if the new volume was lost: it removes the UID of that volume from the record, so that forward creates another one after the
// claim is replaced.
func (m *move) withoutVolume() (step Step, due bool) {
	if volume := m.volume(m.copyName()); volume != nil && volume.DeletionTimestamp == nil {
		if ref := volume.Spec.ClaimRef; ref != nil && ref.UID == "" {
			return m.reserve(volume, m.record.Live.UID, "keeping the new volume from the claim that waits for its data"), true
		}
		return Step{}, false
	}
	if c := m.Claim; c != nil && c.Spec.VolumeName == m.copyName() && c.DeletionTimestamp == nil {
		return m.remove(Preparing, "removing the claim whose volume is gone"), true
	}
	record, live := *m.record, *m.record.Live
	live.UID, record.Live = "", &live
	step = m.note(&record, "the new volume is gone: another one is created")
	step.Phase = Preparing
	return step, true
}

// reserve writes a UID to the claimRef of a volume. With an empty UID, Kubernetes binds any claim with the name in the claimRef.
func (m *move) reserve(volume *corev1.PersistentVolume, uid types.UID, why string) Step {
	next := volume.DeepCopy()
	next.Spec.ClaimRef.UID, next.Spec.ClaimRef.ResourceVersion = uid, ""
	return Step{Action: Patch, Object: next, Old: volume, Phase: Preparing, Why: why}
}

// follow copies the data again and again while pods change it. Once few changes are left, it stops the owner of these pods.
func (m *move) follow(target *corev1.Node, w *workload) (Step, bool) {
	uid := m.record.Live.UID
	if volume := m.volume(m.copyName()); volume == nil {
		want := storage.AheadOf(m.record.Node, uid)
		have := m.Claim.Annotations[storage.AnnotationAhead]
		if have == want {
			if step, due := m.taken(target, false); due {
				return step, true
			}
			return wait(Preparing, "a volume on node %s", m.record.Node), true
		}
		if !strings.HasPrefix(have, want) {
			if step, due := m.taken(target, true); due {
				return step, true
			}
		}
		next := m.Claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, storage.AnnotationAhead, want)
		m.size(&next.ObjectMeta)
		step := Step{Action: Patch, Object: next, Old: m.Claim, Phase: Preparing, Why: "reserving a volume on node " + m.record.Node}
		if strings.HasPrefix(have, want) { // the driver refused it
			step.Err = m.full()
		}
		return step, true
	}
	from, ok := m.sourceEnd()
	if !ok {
		return m.noSourceNode(), true
	}
	to := m.targetEnd(target)
	shown, unproven, unsure, rejected := m.proven(from, to)
	if rejected {
		return unproven, true
	}
	repository, step, due := m.prepare(from, to)
	switch {
	case due:
		return step, true
	case unsure:
		return unproven, true
	}
	copying := on(m.livePod(sender, from, repository), shown.source)
	if copying.Spec.NodeName == "" {
		copying.Spec.Affinity = m.besideUsers()
	}
	sending, step := m.keep(Copying, copying)
	if sending == nil {
		return step, true
	}
	restoring := on(m.livePod(receiver, to, uid), shown.target)
	metav1.SetMetaDataAnnotation(&restoring.ObjectMeta, annotationSender, string(sending.UID))
	if receiving, step := m.keep(Restoring, restoring); receiving == nil {
		return step, true
	}
	return m.stop(w)
}

// livePod returns a pod that copies data again and again. It becomes Ready once few changes are left.
func (m *move) livePod(role string, at end, target types.UID) *corev1.Pod {
	out := m.moverPod(role, at, target)
	c := &out.Spec.Containers[0]
	c.Command[1] = livePrograms[role]
	c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 2, TimeoutSeconds: 10, ProbeHandler: corev1.ProbeHandler{
		Exec: &corev1.ExecAction{Command: []string{moverProgram, "follows"}},
	}}
	return out
}

// besideUsers returns an affinity to the node of the pods that use the claim, because some volumes can be attached to only one node.
func (m *move) besideUsers() *corev1.Affinity {
	if node := m.nodeOfUsers(); node != "" {
		return onNode(node)
	}
	return nil
}

// nodeOfUsers returns the node of a pod that uses the claim, empty if there is none.
func (m *move) nodeOfUsers() string {
	for i := range m.Pods {
		if pod := &m.Pods[i]; m.isUser(pod) && scheduled(pod) {
			return pod.Spec.NodeName
		}
	}
	return ""
}

// keep keeps a live pod running. It returns the pod once it is Ready.
func (m *move) keep(phase Phase, want *corev1.Pod) (*corev1.Pod, Step) {
	have := m.part(want.Namespace, want.Labels[labelRole])
	if have != nil && have.DeletionTimestamp == nil && (hasEnded(have) || !follows(have)) {
		return nil, Step{Action: Delete, Object: have, Phase: phase, Why: "pod " + have.Name + " has ended too early"}
	}
	_, step := m.run(phase, want)
	if step.Action != Nothing || step.Err != nil || have.DeletionTimestamp != nil || !api.PodReady(have) {
		return nil, step
	}
	return have, step
}

// follows reports whether a pod copies data until it receives Finish.
func follows(pod *corev1.Pod) bool {
	c := moverOf(pod)
	return c != nil && len(c.Command) > 1 && c.Command[1] == livePrograms[pod.Labels[labelRole]]
}

// waiting returns the live pods that still need Finish, the sender first.
func (m *move) waiting(from, to end) []*corev1.Pod {
	sending, receiving := m.part(from.namespace, sender), m.part(to.namespace, receiver)
	var out []*corev1.Pod
	for _, pod := range []*corev1.Pod{sending, receiving} {
		// A receiver with another sender is replaced.
		if pod == nil || pod == receiving && (sending == nil || pod.Annotations[annotationSender] != string(sending.UID)) {
			break
		}
		switch {
		case hasEnded(pod):
		case follows(pod) && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && restarts(pod) <= maxRestarts:
			out = append(out, pod)
		default:
			return out // transfer replaces this pod before it needs Finish
		}
	}
	return out
}

// stop stops the owner, unless other pods use the claim now.
func (m *move) stop(w *workload) (Step, bool) {
	owner := m.record.Live.Owner
	if users := m.users(anywhere); len(users) > 0 {
		now, err := m.owner()
		switch {
		case err != nil:
			return Step{Err: err}, true
		case now.Kind != owner.Kind || now.Name != owner.Name:
			return fail("pods %s of %s %s mount PersistentVolumeClaim %s in namespace %s, but the move is to stop %s: delete these pods, and run the command again",
				strings.Join(users, ", "), now.Kind, now.Name, m.Name, m.Namespace, w), true
		}
		owner.To = now.To
	}
	managers, err := managersOfField(w.obj, "spec", "replicas")
	if err != nil {
		return Step{Err: err}, true
	}
	return m.scale(w, &Stopped{Claim: m.Name, Replicas: w.replicas, To: owner.To, Managers: managers}), true
}

func (m *move) scale(w *workload, stopped *Stopped) Step {
	next, err := w.scaled(stopped.To, stopped)
	if err != nil {
		return Step{Err: err}
	}
	return Step{Action: Patch, Object: next, Old: w.obj, Phase: Stopping, Why: fmt.Sprintf("stopping %s: spec.replicas %d instead of %d", w, stopped.To, stopped.Replicas)}
}

// stopping waits until the pods of the stopped owner have ended.
func (m *move) stopping(w *workload, stopped *Stopped) (Step, bool) {
	users := m.users(anywhere)
	switch {
	case w.replicas > stopped.To:
		// The claim still has its old volume, so no data is lost.
		next, err := w.released(stopped)
		if err != nil {
			return Step{Err: err}, true
		}
		return Step{Action: Patch, Object: next, Old: w.obj, Phase: Stopping, Why: "leaving the replicas that something else has set", Err: fmt.Errorf(
			"something else has set spec.replicas of %s to %d during the move, so its pods keep their volume: pause what sets it, such as a GitOps tool, and run the "+
				"command again", w, w.replicas)}, true
	case len(users) > 0:
		return wait(Stopping, "pods %s to end", strings.Join(users, ", ")), true
	}
	return Step{}, false
}

// bind reserves the new volume for the claim, which was created after the volume. After Kubernetes has bound both, it restarts the owner of the pods. due is
// false when nothing is left to do.
func (m *move) bind(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) (step Step, due bool) {
	switch {
	case volume == nil:
		return wait(Finishing, "PersistentVolume %s of the claim", m.copyName()), true
	case claim.Spec.VolumeName == volume.Name && claim.Status.Phase == corev1.ClaimBound && volume.Status.Phase != corev1.VolumeReleased:
		return m.restart(Finishing)
	case volume.Spec.ClaimRef.UID != "" && volume.Spec.ClaimRef.UID != claim.UID:
		step = m.reserve(volume, claim.UID, "reserving the new volume for the claim")
		step.Phase = Finishing
		return step, true
	}
	return wait(Finishing, "the claim to be bound to its new volume"), true
}

// discard deletes the new volume of a cancelled move. due is false once that volume no longer exists.
func (m *move) discard() (step Step, due bool) {
	if m.Claim.Annotations[storage.AnnotationAhead] != "" {
		next := m.Claim.DeepCopy()
		delete(next.Annotations, storage.AnnotationAhead)
		delete(next.Annotations, storage.AnnotationCapacity)
		return Step{Action: Patch, Object: next, Old: m.Claim, Phase: Returning, Why: "deleting the volume on node " + m.record.Node}, true
	}
	if !m.ahead() {
		return Step{}, false
	}
	volume := m.volume(m.copyName())
	switch {
	case volume == nil:
		return Step{}, false
	case volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || volume.Spec.ClaimRef.UID != m.record.Live.UID:
		step := m.reserve(volume, m.record.Live.UID, "removing the copy on node "+m.record.Node)
		if next, ok := step.Object.(*corev1.PersistentVolume); ok {
			next.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		}
		step.Phase = Returning
		return step, true
	case m.record.Provider != "" && !m.responds(m.record.Provider):
		return Step{}, false // its virtual kubelet deletes the copy once the provider responds
	}
	return wait(Returning, "PersistentVolume %s to be deleted", volume.Name), true
}
