package storage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/excerpt"
)

// forgotten returns the state about data in milan whose claim and volume this cluster has lost, and the lost volume.
func forgotten(t *testing.T) (State, *corev1.PersistentVolume) {
	t.Helper()
	s, volume := made(t, there(), "milan")
	s.Key = types.NamespacedName{Namespace: s.Claim.Namespace, Name: s.Claim.Name}
	s.Claim, s.Volume, s.Node = nil, nil, nil
	return s, volume
}

// TestForgottenDataGetsItsVolumeAgain: this cluster was restored from a backup without the volume of data in a provider. The volume is created again as it was, and
// retains the data. No other claim is bound to it.
func TestForgottenDataGetsItsVolumeAgain(t *testing.T) {
	for name, change := range map[string]func(*State){
		"no claim": func(*State) {},
		"marked as retained by an earlier release": func(s *State) { annotate(&s.Backing.ObjectMeta, AnnotationRetained, api.True) },
		"a volume of the name in this cluster": func(s *State) {
			_, local := made(t, here(), "n1")
			s.Reserved = []*corev1.PersistentVolume{local}
		},
		"a claim that names the lost volume": func(s *State) {
			s.Claim = claim("milan")
			s.Claim.Spec.VolumeName, s.Claim.Status.Phase = VolumeName(s.UID), corev1.ClaimLost
		},
	} {
		s, want := forgotten(t)
		change(&s)
		want.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		want.Annotations[annotationRecovered] = "shop-rome/" + claimName
		step := Next(s)
		if diff := cmp.Diff(want, step.Object); diff != "" || step.Action != CreateVolume || !step.Confirm {
			t.Errorf("%s: %s: %s (-want +got):\n%s", name, step.Action, step.Why, diff)
			continue
		}
		for range 1000 {
			s.Backing.Spec.AccessModes = append(s.Backing.Spec.AccessModes, corev1.ReadWriteOncePod)
		}
		if again, ok := Next(s).Object.(*corev1.PersistentVolume); s.Claim == nil && (!ok || len(again.Spec.AccessModes) != 1) {
			t.Errorf("%s: the provider chose the size of the volume object: %+v", name, again)
		}
		s.Volume, s.Claim = want, nil
		s.Volume.Status.Phase = corev1.VolumeReleased
		if step = Next(s); step.Action == PatchBacking {
			s.Backing, _ = step.Object.(*corev1.PersistentVolumeClaim)
			step = Next(s)
		}
		if step.Action != Nothing || s.Backing.Annotations[AnnotationRetained] != "" {
			t.Errorf("%s: its volume decides about it: %s: %s", name, step.Action, step.Why)
		}
		if all := []corev1.PersistentVolume{*s.Volume}; !Retained(s.Volume, all) {
			t.Errorf("%s: nothing holds the remote namespace", name)
		}
		for _, part := range []string{"PersistentVolumeClaim shop-rome/data of cluster milan", "PersistentVolume pvc-u1", `"uid":null`, `"Delete"`} {
			if !strings.Contains(Recovered(s.Volume, false), part) {
				t.Errorf("%s: no %q in: %s", name, part, Recovered(s.Volume, false))
			}
		}
		s.Backing, s.Listed = nil, true // the provider has deleted the data
		if step = Next(s); step.Action != DeleteVolume || !step.Confirm {
			t.Errorf("%s: the data is gone: %s: %s", name, step.Action, step.Why)
		}
		s.Volume.DeletionTimestamp = &metav1.Time{}
		if step = Next(s); step.Action != PatchVolume {
			t.Errorf("%s: the volume stays in deletion: %s: %s", name, step.Action, step.Why)
		}
	}
}

// TestAClaimOfABackupGetsItsDataAgain: the backup has the claim from before it got its volume in the provider. The claim gets that volume if its pod is scheduled in the
// provider, and also without a pod, and whatever other volumes were recovered.
func TestAClaimOfABackupGetsItsDataAgain(t *testing.T) {
	for name, selected := range map[string]string{"no pod": "", "a pod in the provider": "milan"} {
		s, lost := forgotten(t)
		s.Claim = claim(selected)
		s.Node = node(selected)
		for i := range RecoveredLimit {
			v := lost.DeepCopy()
			v.Name, v.Spec.PersistentVolumeReclaimPolicy = fmt.Sprintf("pvc-other-%d", i), corev1.PersistentVolumeReclaimRetain
			annotate(&v.ObjectMeta, annotationRecovered, "shop-rome/other")
			s.Recovered = append(s.Recovered, v)
		}
		step := Next(s)
		volume, ok := step.Object.(*corev1.PersistentVolume)
		if step.Action != CreateVolume || !ok || !step.Confirm || volume.Spec.ClaimRef.UID != s.Claim.UID || ClusterOf(volume) != "milan" {
			t.Errorf("%s: %s: %s", name, step.Action, step.Why)
		}
		if s.Claim = nil; Next(s).Action == CreateVolume {
			t.Errorf("%s: the limit does not hold without the claim", name)
		}
	}
}

// TestOnlyForgottenDataGetsAVolume: no volume is created again for what this consumer did not create, for what has no data, for what ends, and for a name whose data
// moves or has another volume in the provider.
func TestOnlyForgottenDataGetsAVolume(t *testing.T) {
	for name, change := range map[string]func(*State){
		"of a user of the provider":    func(s *State) { s.Backing.Annotations = nil },
		"of another consumer":          func(s *State) { s.Backing.Labels[api.LabelOrigin] = "turin" },
		"created for another provider": func(s *State) { s.Backing.Labels[api.LabelDestination] = "turin" },
		"created for another name":     func(s *State) { s.Backing.Annotations[LabelClaimName] = "other" },
		"is being deleted":             func(s *State) { s.Backing.DeletionTimestamp = &metav1.Time{} },
		"has no volume":                func(s *State) { s.Backing.Spec.VolumeName, s.Backing.Status.Phase = "", corev1.ClaimPending },
		"has lost its volume":          func(s *State) { s.Backing.Status.Phase = corev1.ClaimLost },
		"the copy of a move":           func(s *State) { annotate(&s.Backing.ObjectMeta, AnnotationRetained, retainedCopy) },
		"its data moves":               func(s *State) { s.Reserved = []*corev1.PersistentVolume{moved("", `{"provider":"milan"}`)} },
		"another volume of the provider": func(s *State) {
			s.Reserved = []*corev1.PersistentVolume{moved("milan", "")}
		},
		"a volume that Liqo did not create": func(s *State) { s.Volume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-u1"}} },
		"a name that no claim of this cluster can have": func(s *State) {
			s.Key.Name = strings.Repeat("n", 254)
			s.Backing.Annotations[LabelClaimName] = s.Key.Name
		},
		"a UID that Kubernetes does not create": func(s *State) {
			s.UID = types.UID(strings.Repeat("u", 37))
			s.Backing.Annotations[AnnotationClaimUID] = string(s.UID)
		},
		"the provider is unreachable": func(s *State) { s.Place.Waiting = "unreachable" },
	} {
		s, _ := forgotten(t)
		if change(&s); Next(s).Action == CreateVolume {
			t.Errorf("%s: a volume is created", name)
		}
	}
}

// TestAProviderTakesNoClaimOfThisCluster: a provider that knows the UID of a claim in this cluster creates a backing claim for it. No volume is created for a claim whose
// class is not one of Liqo, or whose pod is scheduled elsewhere, because Kubernetes would bind the claim to it. The data stays.
func TestAProviderTakesNoClaimOfThisCluster(t *testing.T) {
	standard, none := "standard", ""
	for name, change := range map[string]func(*State){
		"another class":                    func(s *State) { s.Claim.Spec.StorageClassName = &standard },
		"another class, a pod in milan":    func(s *State) { s.Claim.Spec.StorageClassName, s.Node = &standard, node("milan") },
		"no class":                         func(s *State) { s.Claim.Spec.StorageClassName = nil },
		"an empty class, a static volume":  func(s *State) { s.Claim.Spec.StorageClassName, s.Claim.Spec.VolumeName = &none, "static" },
		"no class, a static volume":        func(s *State) { s.Claim.Spec.StorageClassName, s.Claim.Spec.VolumeName = nil, "static" },
		"another class, a volume of a CSI": func(s *State) { s.Claim.Spec.StorageClassName, s.Claim.Spec.VolumeName = &standard, "pvc-u1" },
		"a pod in this cluster": func(s *State) {
			annotate(&s.Claim.ObjectMeta, AnnotationSelectedNode, "n1")
			s.Node = node("n1")
		},
		"a pod on a node of another process": func(s *State) { annotate(&s.Claim.ObjectMeta, AnnotationSelectedNode, "turin") },
	} {
		s, _ := forgotten(t)
		s.Claim = claim("")
		change(&s)
		if step := Next(s); step.Action == CreateVolume || step.Action == DeleteBacking {
			t.Errorf("%s: %s: %s", name, step.Action, step.Why)
		}
	}
}

// TestAClaimOfTheNameLearnsOfTheRecoveredData: a new claim of the name gets no volume in the provider. Its user gets both ways on.
func TestAClaimOfTheNameLearnsOfTheRecoveredData(t *testing.T) {
	s, _ := forgotten(t)
	volume, ok := Next(s).Object.(*corev1.PersistentVolume)
	if !ok {
		t.Fatal("no volume")
	}
	volume.Status.Phase = corev1.VolumeReleased
	s.UID, s.Claim, s.Node, s.Reserved = "u2", claim("milan"), node("milan"), []*corev1.PersistentVolume{volume}
	s.Claim.UID = "u2"
	step := Next(s)
	for _, part := range []string{"PersistentVolume pvc-u1 is its volume", "kubectl patch pv pvc-u1 --type merge", `"Delete"`} {
		if step.Action != Nothing || !strings.Contains(step.Refused, part) {
			t.Errorf("no %q in: %s: %s", part, step.Action, step.Refused)
		}
	}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "other", UID: "u3"}
	volume.Status.Phase = corev1.VolumeBound
	if step := Next(s); step.Action != Nothing || strings.Contains(step.Refused, "kubectl patch") || !strings.Contains(step.Refused, "it may have data that is needed") {
		t.Errorf("a volume that another claim uses: %s: %s", step.Action, step.Refused)
	}
}

// TestARecoveredVolumeIsDeletedOnlyOnceItsDataIsGone: the volume stays while it is unknown whether the data exists. The NamespaceMap may be empty right after a restore,
// the claims there may not be read, or another claim may be the one that is decided about.
func TestARecoveredVolumeIsDeletedOnlyOnceItsDataIsGone(t *testing.T) {
	for name, change := range map[string]func(*State){
		"the NamespaceMap has no such namespace":       func(s *State) { s.Listed, s.Place.Namespace = false, "" },
		"the claims are not read":                      func(s *State) { s.Listed = false },
		"the claims are not read, which is known":      func(s *State) { s.Place.Waiting = "unreachable" },
		"another remote namespace":                     func(s *State) { s.Place.Namespace = "shop-2" },
		"it is the source of an unfinished move":       func(s *State) { annotate(&s.Volume.ObjectMeta, AnnotationMove, `{"node":"n1"}`) },
		"it was created a moment ago":                  func(s *State) { s.Fresh = true },
		"a decision about another claim of the volume": func(s *State) { s.Key.Name = "other" },
		"a person in the provider removed a label": func(s *State) {
			known, _ := forgotten(t)
			s.Backing = known.Backing
			delete(s.Backing.Labels, api.LabelOrigin)
		},
	} {
		s, _ := forgotten(t)
		s.Listed = true
		volume, ok := Next(s).Object.(*corev1.PersistentVolume)
		if !ok {
			t.Fatal("no volume")
		}
		volume.Status.Phase = corev1.VolumeReleased
		s.Volume, s.Backing = volume, nil
		if step := Next(s); step.Action != DeleteVolume {
			t.Fatalf("the data is gone: %s: %s", step.Action, step.Why)
		}
		if change(&s); Next(s).Action != Nothing {
			t.Errorf("%s: %s: %s", name, Next(s).Action, Next(s).Why)
		}
	}
}

// TestMessagesAboutRecoveredDataFitIntoAnEvent: an Event has 1,024 bytes. With names as long as Kubernetes permits, the message still says what was found, and has
// both commands. With usual names, it has everything.
func TestMessagesAboutRecoveredDataFitIntoAnEvent(t *testing.T) {
	for length, complete := range map[int]bool{253: false, 30: true} {
		name, label := strings.Repeat("n", length), strings.Repeat("m", min(length, 63))
		s, _ := forgotten(t)
		volume, ok := Next(s).Object.(*corev1.PersistentVolume)
		if !ok {
			t.Fatal("no volume")
		}
		volume.Name, volume.Spec.StorageClassName = VolumeName("10bcbe2f-3df8-4a04-a5ff-6b5f4e5ddff3"), strings.Repeat("c", length)
		volume.Spec.NodeAffinity, volume.Spec.ClaimRef.Name, volume.Spec.ClaimRef.Namespace = NodesOf(label), name, label
		annotate(&volume.ObjectMeta, annotationDataOf, label+"/"+name)
		annotate(&volume.ObjectMeta, annotationRecovered, label+"/"+name)
		released := volume.DeepCopy()
		released.Status.Phase = corev1.VolumeReleased
		s.UID, s.Claim, s.Node, s.Reserved = "u2", claim("milan"), node("milan"), []*corev1.PersistentVolume{released}
		s.Claim.UID, s.Claim.Name, s.Key.Name, s.Place.Cluster, s.Place.Namespace = "u2", name, name, label, label
		annotate(&s.Backing.ObjectMeta, AnnotationClaimUID, string(VolumeUID(volume)))
		for of, message := range map[string]string{
			"Event of the volume": Recovered(volume, true), "refused claim": s.foreignBacking().Refused,
		} {
			said := excerpt.Of(message, 1024)
			if complete && said != message {
				t.Errorf("%s: %d bytes: %s", of, len(message), message)
			}
			for _, part := range []string{
				label, " data", "PersistentVolume " + volume.Name,
				"kubectl patch pv " + volume.Name + ` --type merge --patch '{"spec":{"claimRef":{"namespace":"` + label + `","name":"` + name + `","uid":null,"resourceVersion":null}}}'`,
				Discard(volume),
			} {
				if !strings.Contains(said, part) {
					t.Errorf("%s: no %q in: %s", of, part, said)
				}
			}
		}
		released.DeletionTimestamp = &metav1.Time{} // Kubernetes binds it to no claim
		said := excerpt.Of(s.foreignBacking().Refused, 1024)
		if !strings.Contains(said, "cluster "+label+" that mounts claim "+name+". To delete the data: "+Discard(volume)+".") || strings.Contains(said, "claimRef") {
			t.Errorf("in deletion: %s", said)
		}
	}
}
