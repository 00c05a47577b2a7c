package storage

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
)

// ConditionBacking is, followed by the ID of a provider, the type of a condition on a claim that is being moved. With it, the virtual kubelet of that
// provider reports whether the move may use the backing claim, the PersistentVolumeClaim of the same name in the provider. This is necessary because other
// users of the provider can create claims of that name, and a move must neither read nor overwrite their data.
//
// The condition is True if Liqo created the backing claim for the volume or for this move, or if the provider has no claim of that name yet. It is False if
// the move must not use the claim of that name, if the claim that should have the data is missing, or if the provider denies the creation. Users can't set
// the condition, because only controllers write the status of a claim.
const ConditionBacking = "storage.liqo.io/backing-claim-in-"

// Reasons of the condition.
const (
	reasonVouched  = "CreatedByLiqo"
	reasonRejected = "NotOfThisMove"
	reasonFree     = "NoSuchClaim"
	reasonDenied   = "DeniedByProvider"
)

// free is the message of the condition while the claim has its old volume, and the provider has no claim of that name.
const free = "the name is free"

// vouchedFor returns the beginning of the message of condition ConditionBacking with reason CreatedByLiqo. It says that the backing claim was created for
// uid. In the condition, the UID of the backing claim follows this text.
func vouchedFor(uid types.UID) string {
	return fmt.Sprintf("created for UID %s of this cluster, and has UID ", uid)
}

// Free reports whether a provider has no claim of that name yet, according to the virtual kubelet of the provider. A move can start only then.
func Free(claim *corev1.PersistentVolumeClaim, provider string) bool {
	return slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == conditionOf(provider) && c.Status == corev1.ConditionTrue && c.Message == free
	})
}

// Rejected reports whether condition ConditionBacking is False for a provider. The move then must not use the claim of that name there, or the provider
// denies its creation: see Denied.
func Rejected(claim *corev1.PersistentVolumeClaim, provider string) bool {
	return slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == conditionOf(provider) && c.Status == corev1.ConditionFalse
	})
}

// Asked reports whether the virtual kubelet of a provider has answered whether a move may start. The answer may change at any time, so the virtual kubelet
// asks its provider regularly.
func Asked(claim *corev1.PersistentVolumeClaim, provider string) bool {
	return Free(claim, provider) || Rejected(claim, provider)
}

// Denied returns why a provider denies the creation of the claim that a move needs there. The virtual kubelet of the provider reports this. The result is
// empty if the provider permits that claim, or if nothing is reported.
func Denied(claim *corev1.PersistentVolumeClaim, provider string) string {
	for _, c := range claim.Status.Conditions {
		if c.Type == conditionOf(provider) && c.Status == corev1.ConditionFalse && c.Reason == reasonDenied {
			return c.Message
		}
	}
	return ""
}

// Vouched returns the UID of the backing claim in a provider if the virtual kubelet of the provider reports that Liqo created it for uid. problem says why
// the move must not use the claim there. If both are empty, the virtual kubelet has not reported on a claim for uid yet.
func Vouched(claim *corev1.PersistentVolumeClaim, provider string, uid types.UID) (backing types.UID, problem string) {
	if claim == nil {
		return "", ""
	}
	for _, c := range claim.Status.Conditions {
		if c.Type != conditionOf(provider) {
			continue
		}
		if c.Status != corev1.ConditionTrue {
			return "", c.Message
		}
		if own, found := strings.CutPrefix(c.Message, vouchedFor(uid)); found {
			return types.UID(own), ""
		}
	}
	return "", ""
}

func conditionOf(provider string) corev1.PersistentVolumeClaimConditionType {
	return corev1.PersistentVolumeClaimConditionType(ConditionBacking + provider)
}

// moving is the part of the record of a move that this package reads. Package move writes the record.
type moving struct {
	Node, Provider, Capacity string
	Copy                     types.UID
	Live                     struct{ UID types.UID }
}

// movingOf returns the record of the move in a virtual volume. found is false if there is none.
func movingOf(volume *corev1.PersistentVolume) (record moving, found bool) {
	if VolumeUID(volume) == "" || volume.Annotations[AnnotationMove] == "" {
		return moving{}, false
	}
	return record, json.Unmarshal([]byte(volume.Annotations[AnnotationMove]), &record) == nil
}

// Moving returns the name of a virtual volume with an unfinished move, if that volume is reserved for a claim with the namespace and name of this one. It is
// empty if there is none. It is also empty if this claim has the verified copy of the data, because the move then only has to release the old data.
func Moving(volumes []*corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) string {
	for _, v := range volumes {
		record, found := movingOf(v)
		if found && record.Copy != claim.UID && ReservedFor(v) == (types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}) {
			return v.Name
		}
	}
	return ""
}

// Trial returns the backing claim that a move to provider s.Place.Cluster will need there. The caller creates it in a dry run, to find out whether the provider
// denies it, for example because a ResourceQuota is used up, and stores the error in State.Denied. s.Claim still has its old volume, in another cluster. Trial
// returns nil if no move needs a backing claim there, if it exists, or if the provider offers no class for it. The parameters are those of Vouch.
func Trial(s State, volumes []*corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	if s.Claim == nil || s.Claim.DeletionTimestamp != nil || s.Place.Cluster == "" || s.Place.Waiting != "" || s.Backing != nil {
		return nil
	}
	for _, v := range volumes {
		record, found := movingOf(v)
		if !found || v.Name != s.Claim.Spec.VolumeName || record.Provider != s.Place.Cluster || ClusterOf(v) == s.Place.Cluster {
			continue
		}
		s.Claim = s.Claim.DeepCopy()
		annotate(&s.Claim.ObjectMeta, AnnotationCapacity, record.Capacity)
		class, err := s.backingClass()
		if err != nil {
			return nil // the move itself reports, before it begins, that the cluster offers no class
		}
		return s.newBacking(class, record.Node)
	}
	return nil
}

// Vouch returns the step that updates condition ConditionBacking of a claim for provider s.Place.Cluster. s.Claim is the claim with the name of s.Backing,
// whatever its UID is. volumes are the virtual volumes that are reserved for a claim of this name.
//
// Vouch sets the condition only if one of these volumes has the record of a move, because users can't write that record. Callers execute the step only when
// Next has nothing to do, because Next deletes former copies.
func Vouch(s State, volumes []*corev1.PersistentVolume) Step {
	if s.Claim == nil || s.Claim.DeletionTimestamp != nil || s.Place.Cluster == "" || s.Place.Waiting != "" {
		return Step{Why: "no move to vouch for"}
	}
	want := s.condition(volumes)
	next := s.Claim.DeepCopy()
	next.Status.Conditions = nil
	known := false
	for _, c := range s.Claim.Status.Conditions {
		if c.Type != conditionOf(s.Place.Cluster) {
			next.Status.Conditions = append(next.Status.Conditions, c)
		} else if want != nil && c.Status == want.Status && (c.Message == want.Message || c.Reason == reasonDenied && want.Reason == reasonDenied && sameButNumbers(c.Message, want.Message)) {
			return Step{Why: "the condition says what is so"}
		} else {
			known = true
		}
	}
	step := Step{Action: PatchClaimStatus, Object: next, Old: s.Claim, Confirm: true}
	switch {
	case want != nil:
		next.Status.Conditions = append(next.Status.Conditions, *want)
		step.Why = "its data moves: " + want.Message
	case !known:
		return Step{Why: "no move to vouch for"}
	default:
		step.Why = "nothing to vouch for any more"
	}
	return step
}

// sameButNumbers reports whether two texts are equal apart from words that contain digits. Vouch uses it to compare the old and the new denial of a provider.
// The denial of a ResourceQuota contains the current usage, and that of a webhook may identify the request. Without this comparison, Vouch would update the
// condition after every request to the provider.
func sameButNumbers(a, b string) bool {
	words := func(text string) []string {
		out := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		for i, word := range out {
			if strings.ContainsFunc(word, unicode.IsDigit) {
				out[i] = "0"
			}
		}
		return out
	}
	return slices.Equal(words(a), words(b))
}

// condition returns the condition that the claim must have for the provider at Place, nil if it must have none.
func (s *State) condition(volumes []*corev1.PersistentVolume) *corev1.PersistentVolumeClaimCondition {
	for _, v := range volumes {
		record, found := movingOf(v)
		if !found {
			continue
		}
		switch s.Place.Cluster {
		case ClusterOf(v):
			return s.verdict(VolumeUID(v), s.noSource(v))
		case record.Provider:
			uid := s.Claim.UID
			if record.Live.UID != "" {
				uid = record.Live.UID
			}
			switch {
			case s.Backing == nil && s.Claim.Spec.VolumeName == v.Name && s.Denied != "":
				return &corev1.PersistentVolumeClaimCondition{
					Type: conditionOf(s.Place.Cluster), Status: corev1.ConditionFalse, Reason: reasonDenied, Message: s.Denied,
				}
			case s.Backing == nil && s.Claim.Spec.VolumeName == v.Name:
				return &corev1.PersistentVolumeClaimCondition{
					Type: conditionOf(s.Place.Cluster), Status: corev1.ConditionTrue, Reason: reasonFree, Message: free,
				}
			case s.Backing == nil || s.Backing.DeletionTimestamp != nil:
				return nil // Liqo creates it
			}
			return s.verdict(uid, s.noTarget(uid, volumes))
		}
	}
	return nil
}

func (s *State) verdict(uid types.UID, problem string) *corev1.PersistentVolumeClaimCondition {
	if problem != "" {
		return &corev1.PersistentVolumeClaimCondition{
			Type: conditionOf(s.Place.Cluster), Status: corev1.ConditionFalse, Reason: reasonRejected,
			Message: fmt.Sprintf("PersistentVolumeClaim %s in %s %s", s.Claim.Name, s.where(), problem),
		}
	}
	return &corev1.PersistentVolumeClaimCondition{
		Type: conditionOf(s.Place.Cluster), Status: corev1.ConditionTrue, Reason: reasonVouched, Message: vouchedFor(uid) + string(s.Backing.UID),
	}
}

// createdFor reports whether Liqo created the backing claim for uid.
func (s *State) createdFor(uid types.UID) bool {
	of := *s
	of.UID = uid
	return of.ours()
}

// noSource returns the reason why the backing claim is not the one with the data of a virtual volume. It is empty if it is that claim.
func (s *State) noSource(volume *corev1.PersistentVolume) string {
	switch {
	case s.Backing == nil:
		return "does not exist any more"
	case volume.Labels[LabelTenant] != s.Place.Tenant:
		return "belongs to another peering"
	case !s.createdFor(VolumeUID(volume)):
		return "is not the one with the data of PersistentVolume " + volume.Name
	}
	return ""
}

// noTarget returns the reason why a move must not write to the backing claim. It is empty if the move may.
func (s *State) noTarget(uid types.UID, volumes []*corev1.PersistentVolume) string {
	known := slices.ContainsFunc(volumes, func(v *corev1.PersistentVolume) bool {
		return VolumeUID(v) == uid && ClusterOf(v) == s.Place.Cluster && v.Labels[LabelTenant] == s.Place.Tenant
	})
	switch mark := s.Backing.Annotations[AnnotationRetained]; {
	case mark == api.True:
		return "is retained, and may have the data of an earlier claim"
	case !s.createdFor(uid):
		return "was not created by this move"
	case s.Backing.Spec.VolumeName != "" && mark != retainedCopy && !known:
		return "may have data: it was in use before, and this cluster does not know its virtual volume"
	}
	return ""
}
