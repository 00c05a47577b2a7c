package move

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

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
	claim, node := s.Claim, s.node(s.Node)
	volume := s.volume(claim.Spec.VolumeName)
	if admits(volume, node) {
		return s.arrived()
	}
	if step := s.obstacle(node); step.Err != nil {
		return step
	}
	record := newRecord(claim, volume, node, &s.Request)
	if s.Live {
		owner, err := s.owner()
		if err == nil {
			err = s.liveRefusal()
		}
		switch {
		case err != nil:
			return Step{Err: err}
		case owner == nil:
			return fail("--live: no pod mounts PersistentVolumeClaim %s in namespace %s: move it without --live, or start its pods before", s.Name, s.Namespace)
		}
		record.Live = &Live{UID: s.NewUID, Owner: *owner}
	}
	next, err := noted(volume, record)
	if err != nil {
		return Step{Err: err}
	}
	// From here on, the deletion of the claim does not delete its data.
	next.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	return Step{Action: Patch, Object: next, Old: volume, Phase: Preparing, Why: "keeping the data while the claim is replaced"}
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

// obstacle returns a step with an error if the data can't be moved to the node now.
func (s *State) obstacle(node *corev1.Node) Step {
	provider := storage.ProviderOf(node)
	users := s.users(anywhere)
	switch {
	case s.scalesAway() != nil:
		return fail("PersistentVolumeClaim %s in namespace %s can't be moved: StatefulSet %s deletes it, with its data, when it has fewer replicas "+
			"(spec.persistentVolumeClaimRetentionPolicy.whenScaled is Delete), and its pods have to stop for the move. Keep the claims first: kubectl patch statefulset %[3]s --namespace %[2]s "+
			`--patch '{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Retain"}}}'`, s.Name, s.Namespace, s.scalesAway().Name)
	case len(users) > 0 && !s.Live:
		return fail("PersistentVolumeClaim %s in namespace %s is mounted by pods %s: stop them first, for example with kubectl scale --replicas=0, delete those "+
			"that have ended, and then run the command again, or let --live stop them", s.Name, s.Namespace, strings.Join(users, ", "))
	case !ready(node):
		return fail("--target-node %s: the node is not Ready: choose another one, or wait", s.Node)
	case s.Obstacle != "":
		return fail("--target-node %s: %s", s.Node, s.Obstacle)
	case s.Unprotected != "":
		return fail("PersistentVolumeClaim %s in namespace %s can't be moved: %s", s.Name, s.Namespace, s.Unprotected)
	}
	for i := range s.Volumes {
		if v := &s.Volumes[i]; provider != "" && providerOf(v) == provider && storage.VolumeUID(v) != "" && v.Name != s.Claim.Spec.VolumeName {
			return fail("--target-node %s: cluster %s has data of an earlier claim of this name, in PersistentVolume %s: it may be the only copy, so read it first, and copy what is "+
				"needed. The guide to storage says how to release such a volume",
				s.Node, provider, v.Name)
		}
	}
	return Step{}
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

// arrived waits until the old data of a finished move is deleted.
func (s *State) arrived() Step {
	for i := range s.Volumes {
		v := &s.Volumes[i]
		ending := v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && v.Status.Phase == corev1.VolumeReleased
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
