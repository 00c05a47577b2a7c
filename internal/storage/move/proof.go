package move

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/storage"
)

// annotationBacking, on a pod that copies data in a provider, is the UID of the claim there that the virtual kubelet vouched for when the pod was created. Pods
// refer to a claim by its name only, and other users of the provider may delete a claim and create another one of that name. A UID is never reused. So if the
// virtual kubelet still vouches for the same UID after the pod has ended, the pod has used that claim.
const annotationBacking = "storage.liqo.io/move-backing"

// Timeouts of a command: confirmTime for the first report of the virtual kubelet about the claim in its provider, and recheckTime for a report that withdraws a
// rejection. A rejection may be out of date, because the user may just have deleted the wrong claim.
const (
	confirmTime = 2 * time.Minute
	recheckTime = 10 * time.Second
)

// proof holds the UIDs of the claims in the providers that the pods of a move may mount. The UID of an end in this cluster is empty.
type proof struct{ source, target types.UID }

// proven returns the proof once both ends have one. Until then, due is true. rejected means that a claim at one end does not belong to the move.
func (m *move) proven(from, to end) (found proof, step Step, due, rejected bool) {
	for _, at := range []struct {
		end
		uid  types.UID
		into *types.UID
	}{{from, storage.VolumeUID(m.source), &found.source}, {to, m.copyUID(), &found.target}} {
		node := m.node(at.node)
		if at.node == "" || node == nil {
			continue
		}
		provider := storage.ProviderOf(node)
		backing, problem := storage.Vouched(m.Claim, provider, at.uid)
		switch *at.into = backing; {
		case storage.Denied(m.Claim, provider) != "":
			return proof{}, m.denied(provider, problem), true, true
		case problem != "" && at.into == &found.source:
			return proof{}, m.missing(at.node, problem), true, true
		case problem != "":
			return proof{}, m.occupied(problem), true, true
		case backing == "" && !due && at.into == &found.source:
			step, due = m.unproven(node, m.sourceConfirmation()), true
		case backing == "" && !due:
			step, due = m.unproven(node, m.targetConfirmation()), true
		}
	}
	return found, step, due, false
}

// rejected waits for a short time, because the user may just have removed the claim that the virtual kubelet rejects.
func (m *move) rejected(problem string, err error) Step {
	step := wait(Preparing, "the virtual kubelet to find another state: %s", problem)
	step.Late, step.Within = err, recheckTime
	return step
}

// sourceUnproven waits until the provider with the data, if there is one, has its virtual node, and the virtual kubelet has vouched for the claim there.
func (m *move) sourceUnproven() (step Step, due bool) {
	provider := providerOf(m.source)
	if provider == "" {
		return Step{}, false
	}
	node := m.nodeOf(provider)
	if node == nil {
		return m.noSourceNode(), true
	}
	switch backing, problem := storage.Vouched(m.Claim, provider, storage.VolumeUID(m.source)); {
	case problem != "":
		return m.missing(node.Name, problem), true
	case backing == "":
		return m.unproven(node, m.sourceConfirmation()), true
	}
	return Step{}, false
}

func (m *move) noSourceNode() Step {
	return wait(Preparing, "a virtual node of cluster %s, which has the data", providerOf(m.source))
}

// missing returns the error about a claim in the provider with the data that does not belong to the move.
func (m *move) missing(node, problem string) Step {
	return m.rejected(problem, fmt.Errorf("node %s is to have the data of PersistentVolumeClaim %s in namespace %s, but %s: nothing was copied from it. Restore "+
		"the data there, or cancel the move by moving the claim to node %[1]s", node, m.Name, m.Namespace, problem))
}

// occupied returns the error about a claim in the target that does not belong to the move.
func (m *move) occupied(problem string) Step {
	return m.rejected(problem, fmt.Errorf("--target-node %s: the data of PersistentVolumeClaim %s in namespace %s can't be copied: %s. Liqo does not touch that "+
		"claim, because its data may be needed. Find out whose claim it is. Run the command again when the target has no claim of that name, or cancel the move by moving the claim to the node that has the data", m.record.Node, m.Name, m.Namespace, problem))
}

// denied returns the error about a provider that would deny the new claim.
func (m *move) denied(provider, problem string) Step {
	addition := ""
	if slices.ContainsFunc(m.Claims, func(c corev1.PersistentVolumeClaim) bool { return m.ours(&c) }) {
		size := m.repository().Spec.Resources.Requests[corev1.ResourceStorage]
		addition = fmt.Sprintf(", in addition to one of %s for an encrypted copy", size.String())
	}
	return m.rejected(problem, fmt.Errorf("--target-node %s: cluster %s denies a claim of %s for the data of PersistentVolumeClaim %s in namespace %s%s: %s. The claim still has its volume. "+
		"Run the command again once the cause is removed, which may need the administrator of %[2]s, or cancel the move by moving the claim to the node that has the data",
		m.record.Node, provider, m.capacity(), m.Name, m.Namespace, addition, problem))
}

// taken reports whether the provider of the target denies the new claim, or already has another claim of that name. In either case, the move must not replace the claim. With confirmed,
// due is true until the virtual kubelet has reported that the name is free. Callers use taken only while the claim has its old volume.
func (m *move) taken(target *corev1.Node, confirmed bool) (step Step, due bool) {
	provider := storage.ProviderOf(target)
	if provider == "" {
		return Step{}, false
	}
	if problem := storage.Denied(m.Claim, provider); problem != "" {
		return m.denied(provider, problem), true
	}
	backing, problem := storage.Vouched(m.Claim, provider, m.copyUID())
	if problem != "" {
		return m.occupied(problem), true
	}
	if began := m.ahead() && backing != ""; confirmed && !began && !storage.Free(m.Claim, provider) {
		return m.unproven(target, m.targetConfirmation()), true
	}
	return Step{}, false
}

// sourceConfirmation and targetConfirmation describe what a virtual kubelet has to confirm: at the source that the claim has the data, at the target that no
// other claim has the name.
func (m *move) sourceConfirmation() string {
	return fmt.Sprintf("that PersistentVolumeClaim %s of its cluster has the data", m.Name)
}

func (m *move) targetConfirmation() string {
	return "that no other PersistentVolumeClaim of its cluster has the name " + m.Name
}

// unproven waits until the virtual kubelet of a node confirms what a move needs to know before it copies data.
func (m *move) unproven(node *corev1.Node, what string) Step {
	step := wait(Preparing, "the virtual kubelet of node %s to confirm %s", node.Name, what)
	if ready(node) {
		step.Within = confirmTime
		step.Late = fmt.Errorf("the virtual kubelet of node %s does not confirm %s, so nothing is copied. The data is kept. If Events of the claim name a cause "+
			"(kubectl describe pvc %s --namespace %s), remove it. A virtual kubelet of an earlier release never confirms: upgrade Liqo in this cluster "+
			"(liqoctl upgrade). Then run the command again, or cancel the move by moving the claim to the node that has the data", node.Name, what, m.Name, m.Namespace)
	}
	return step
}

// on annotates a pod with the UID of the claim that it may mount in a provider.
func on(pod *corev1.Pod, backing types.UID) *corev1.Pod {
	if backing != "" {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotationBacking, string(backing))
	}
	return pod
}

// copyLost handles a claim in the provider that is no longer the one with the verified copy. As long as no pod can use the claim, the move copies the data
// again. After that, it keeps the old data. due is false if the copy still exists.
func (m *move) copyLost(usable bool) (step Step, due bool) {
	if m.record.Backing == "" { // the copy is in this cluster, or a command of an earlier release verified it
		return Step{}, false
	}
	backing, problem := storage.Vouched(m.Claim, m.record.Provider, m.copyUID())
	switch node := m.node(m.record.Node); {
	case backing == m.record.Backing:
		return Step{}, false
	case backing == "" && problem == "" && node != nil:
		step := wait(Finishing, "the virtual kubelet of node %s to confirm that PersistentVolumeClaim %s of its cluster is still the one with the copy", node.Name, m.Name)
		if ready(node) {
			step.Within = confirmTime
			step.Late = fmt.Errorf("the virtual kubelet of node %s does not confirm that PersistentVolumeClaim %s of its cluster is still the one with the copy. The old data is "+
				"kept in PersistentVolume %s. If Events of the claim name a cause (kubectl describe pvc %[2]s --namespace %[4]s), remove it. Check that the virtual kubelet "+
				"runs (liqoctl doctor), and run the command again", node.Name, m.Name, m.source.Name, m.Namespace)
		}
		return step, true
	case !usable:
		record := *m.record
		record.Copy, record.Checksum, record.Backing = "", "", ""
		return m.note(&record, "PersistentVolumeClaim "+m.Name+" in cluster "+m.record.Provider+" is not the one with the copy any more: the data is copied again"), true
	}
	return fail("PersistentVolumeClaim %s in cluster %s is not the one with the copy any more, so the old data is kept in PersistentVolume %s. The claim has "+
		"PersistentVolume %[4]s, which may have new data. To copy the old data once more, first keep the new one: "+
		`kubectl patch pv %[4]s --patch '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'. Then stop the pods of the claim, remove the claim, and run the command again`, m.Name,
		m.record.Provider, m.source.Name, m.Claim.Spec.VolumeName), true
}
