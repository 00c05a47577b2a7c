package move

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// start returns the first step of a move: it rejects claims that cannot be moved, and writes the record of the move.
func (s *State) start() Step {
	if step, due := s.leftover(); due {
		return step
	}
	if step := s.refusal(); step.Err != nil {
		return step
	}
	node := s.node(s.Node)
	m := s.begun()
	if admits(m.source, node) {
		if step, due := m.tidy(Finishing); due { // another command created it before a move began, or after one was cancelled
			return step
		}
		return s.arrived()
	}
	problems := m.obstacles(node)
	if s.Live && s.ownedByUser() == nil { // else the pods must not be stopped by hand either
		owner, err := s.owner()
		if err == nil {
			err = s.liveRefusal()
		}
		switch {
		case err != nil:
			problems = append(problems, err)
		case owner == nil:
			problems = append(problems, fmt.Errorf("--live: no pod mounts PersistentVolumeClaim %s in namespace %s: move it without --live, or start its pods before", s.Name, s.Namespace))
		default:
			m.record.Live.Owner = *owner
		}
	}
	if err := joined(problems); err != nil {
		return Step{Err: err, Unused: m.begunChecks(nil)}
	}
	if step, due := m.checked(node); due {
		return step
	}
	next, err := noted(m.source, m.record)
	if err != nil {
		return Step{Err: err}
	}
	// From here on, the deletion of the claim does not delete its data.
	next.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	return Step{Action: Patch, Object: next, Old: m.source, Phase: Preparing, Why: "keeping the data while the claim is replaced"}
}

// refusal returns a step with an error if there is no data to move, or if the target node does not exist.
func (s *State) refusal() Step {
	claim, called := s.Claim, "PersistentVolumeClaim "+s.Name+" in namespace "+s.Namespace
	switch {
	case claim == nil:
		return fail("%s does not exist: kubectl get pvc --namespace %s lists the claims", called, s.Namespace)
	case claim.Spec.VolumeName == "":
		return fail("%s has no volume, so there is no data to move: its first pod decides where the volume is created", called)
	case s.volume(claim.Spec.VolumeName) == nil:
		return fail("%s has volume %s, which is not one of StorageClass liqo (provisioner %s): only those can be moved",
			called, claim.Spec.VolumeName, storage.Provisioner)
	case api.Ephemeral(claim):
		return fail("%s belongs to an ephemeral volume, whose data ends with its pod, so it can't be moved: copy what is needed to a claim of its own", called)
	case s.node(s.Node) == nil:
		return fail("--target-node %s: there is no such node: name one of %s", s.Node, strings.Join(s.nodeNames(), ", "))
	case claim.DeletionTimestamp != nil:
		return fail("%s is being deleted: its data can't be moved any more", called)
	}
	return Step{}
}

// obstacles returns all problems that prevent a move to the node now, so that the command reports them together, before the first change.
func (m *move) obstacles(node *corev1.Node) (out []error) {
	add := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	if set := m.scalesAway(); set != nil {
		add("PersistentVolumeClaim %s in namespace %s can't be moved: StatefulSet %s deletes it, with its data, when it has fewer replicas "+
			"(spec.persistentVolumeClaimRetentionPolicy.whenScaled is Delete), and its pods have to stop for the move. Keep the claims first: kubectl patch statefulset %[3]s --namespace %[2]s "+
			`--patch '{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Retain"}}}'`, m.Name, m.Namespace, set.Name)
	} else if err := m.ownedByUser(); err != nil {
		out = append(out, err)
	} else if users := m.users(anywhere); len(users) > 0 && !m.Live { // otherwise they must not be stopped yet
		add("PersistentVolumeClaim %s in namespace %s is mounted by pods %s: stop them first, for example with kubectl scale --replicas=0, delete those "+
			"that have ended, and then run the command again, or let --live stop them", m.Name, m.Namespace, strings.Join(users, ", "))
	}
	out = append(out, m.unreachable(node)...)
	if m.Obstacle != "" {
		add("--target-node %s: %s", m.Node, m.Obstacle)
	}
	if m.Unprotected != "" {
		add("PersistentVolumeClaim %s in namespace %s can't be moved: %s", m.Name, m.Namespace, m.Unprotected)
	}
	provider := storage.ProviderOf(node)
	for i := range m.Volumes {
		if v := &m.Volumes[i]; provider != "" && providerOf(v) == provider && storage.VolumeUID(v) != "" && v.Name != m.Claim.Spec.VolumeName {
			add("--target-node %s: cluster %s has data of an earlier claim of this name, in PersistentVolume %s: it may be the only copy, so read it first, and copy what is "+
				"needed. The guide to storage says how to release such a volume", m.Node, provider, v.Name)
		}
	}
	return slices.Concat(out, m.noRoom(node), m.overQuota(node), m.refusals())
}

// scalesAway returns the StatefulSet that created the claim and deletes it when it is scaled down, nil if there is none.
func (s *State) scalesAway() *appsv1.StatefulSet {
	for i := range s.StatefulSets {
		set := &s.StatefulSets[i]
		policy := set.Spec.PersistentVolumeClaimRetentionPolicy
		if policy == nil || policy.WhenScaled != appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
			continue
		}
		for j := range set.Spec.VolumeClaimTemplates {
			ordinal, of := strings.CutPrefix(s.Name, set.Spec.VolumeClaimTemplates[j].Name+"-"+set.Name+"-")
			if _, err := strconv.Atoi(ordinal); of && err == nil {
				return set
			}
		}
	}
	return nil
}

// ownedByUser returns an error if a pod owns the claim that it mounts, as drivers of Spark do. Kubernetes deletes the claim, with its data, together with such a pod.
func (s *State) ownedByUser() error {
	for i := range s.Pods {
		pod := &s.Pods[i]
		at := slices.IndexFunc(s.Claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == pod.UID })
		if at >= 0 && s.isUser(pod) {
			return fmt.Errorf("PersistentVolumeClaim %s in namespace %s can't be moved: pod %s, which mounts it and would have to end for the move, is its owner (metadata.ownerReferences), so "+
				"Kubernetes deletes the claim, with its data, together with the pod. Remove this owner first, and delete the claim yourself once its data is not needed any more: "+
				`kubectl patch pvc %[1]s --namespace %[2]s --type json --patch '[{"op":"test","path":"/metadata/ownerReferences/%[4]d/uid","value":"%[5]s"},{"op":"remove","path":"/metadata/ownerReferences/%[4]d"}]'`,
				s.Name, s.Namespace, pod.Name, at, pod.UID)
		}
	}
	return nil
}

// arrived waits until the old data of a finished move is deleted.
func (s *State) arrived() Step {
	for i := range s.Volumes {
		v := &s.Volumes[i]
		ending := v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && v.Status.Phase == corev1.VolumeReleased
		if provider := providerOf(v); provider != "" && !s.responds(provider) {
			continue // a cancelled move does not need that provider: its virtual kubelet deletes the copy once it responds
		}
		if ending && v.Name != s.Claim.Spec.VolumeName && storage.VolumeUID(v) != "" {
			return wait(Finishing, "the old data in PersistentVolume %s to be deleted", v.Name)
		}
	}
	return Step{Done: true, Why: "the data of the claim is on node " + s.Node}
}

func (s *State) nodeNames() []string {
	var out []string
	for i := range s.Nodes {
		out = append(out, s.Nodes[i].Name)
	}
	return out
}
