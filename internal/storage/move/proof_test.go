package move

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// vouch has the virtual kubelet of a provider say what it thinks of a claim there.
func vouch(s *State, provider string, backing *corev1.PersistentVolumeClaim) {
	var volumes []*corev1.PersistentVolume
	for i := range s.Volumes {
		volumes = append(volumes, &s.Volumes[i])
	}
	step := storage.Vouch(storage.State{Claim: s.Claim, Place: place(provider), Backing: backing}, volumes)
	if said, ok := step.Object.(*corev1.PersistentVolumeClaim); ok {
		s.Claim = said
	}
}

// backingFor returns a claim in a provider that was created for uid.
func backingFor(provider string, own, uid types.UID, mark string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: claimName, UID: own, Labels: map[string]string{api.LabelOrigin: "rome", api.LabelDestination: provider},
		Annotations: map[string]string{storage.AnnotationClaimUID: string(uid), storage.AnnotationRetained: mark},
	}}
}

// moving returns the state of a move to milan whose claim waits for its data. from is the provider with the data, empty for this cluster.
func moving(t *testing.T, from string, change func(*Record)) State {
	t.Helper()
	s := bound(func(s *State) { s.Volumes[0] = virtual("pvc-u1", from) })
	s.Volumes[0].Labels[storage.LabelTenant] = "liqo-tenant-" + from
	record := newRecord(s.Claim, &s.Volumes[0], s.node("milan"), &s.Request)
	if change != nil {
		change(record)
	}
	source, err := noted(&s.Volumes[0], record)
	if err != nil {
		t.Fatal(err)
	}
	s.Volumes[0] = *source
	s.protect()
	m := &move{State: &s, source: source, record: record}
	s.Claim = m.held()
	s.Claim.UID = "u2"
	store := m.storePod()
	store.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	s.Pods = []corev1.Pod{*store}
	for _, namespace := range []string{shop, storageNS} {
		s.Secrets = append(s.Secrets, *m.secret(namespace))
	}
	s.Services, s.Claims = []corev1.Service{*m.service()}, []corev1.PersistentVolumeClaim{*m.repository()}
	return s
}

func says(t *testing.T, name string, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: no %q in: %v", name, part, err)
		}
	}
}

// TestDataGoesOnlyIntoAClaimOfTheMove: no pod is created before the virtual kubelet has vouched for the claim in the provider. The error about another claim
// names it, the node and the cure.
func TestDataGoesOnlyIntoAClaimOfTheMove(t *testing.T) {
	silent := moving(t, "", nil)
	step := Next(silent)
	if step.Action != Nothing || step.Err != nil || !strings.Contains(step.Why, "the virtual kubelet of node milan to confirm that no other PersistentVolumeClaim of its cluster has the name data") {
		t.Errorf("%+v", step)
	}
	says(t, "silent", step.Late, "virtual kubelet of node milan does not confirm", "kubectl describe pvc data --namespace shop", "earlier release", "liqoctl upgrade", "cancel the move")
	for i := range silent.Nodes {
		silent.Nodes[i].Status.Conditions = nil
	}
	if step := Next(silent); step.Late != nil || step.Err != nil {
		t.Errorf("an unreachable provider may be back at any time: %+v", step)
	}
	for name, backing := range map[string]*corev1.PersistentVolumeClaim{
		"of a user": {ObjectMeta: metav1.ObjectMeta{Name: claimName, UID: "b1"}}, "retained": backingFor("milan", "b1", "earlier", api.True),
	} {
		s := moving(t, "", nil)
		vouch(&s, "milan", backing)
		step := Next(s)
		if step.Action != Nothing || step.Err != nil || step.Within != recheckTime {
			t.Errorf("%s: %+v", name, step)
		}
		says(t, name, step.Late, "--target-node milan", "PersistentVolumeClaim data in namespace shop can't be copied",
			"PersistentVolumeClaim data in namespace shop-rome of cluster milan", "Liqo does not touch that claim, because its data may be needed", "Run the command again", "cancel the move")
	}
	s := moving(t, "", nil)
	vouch(&s, "milan", backingFor("milan", "b1", "u2", "copy"))
	if step := Next(s); step.Action != Create || !strings.HasSuffix(step.Object.GetName(), "-sender") || step.Object.GetAnnotations()[annotationBacking] != "" {
		t.Errorf("%+v", step)
	}
}

// TestAClaimIsNotReplacedInVain: before the claim is replaced, before a live move reserves its new volume, or while it waits for it, the provider turns out to
// have a claim of that name, or to deny one.
func TestAClaimIsNotReplacedInVain(t *testing.T) {
	begun := func(live bool) State {
		s := bound()
		record := newRecord(s.Claim, &s.Volumes[0], s.node("milan"), &s.Request)
		if live {
			s = running()
			record.Live = &Live{UID: "n1", Owner: Owner{Kind: deployment, Name: "db"}}
			metav1.SetMetaDataAnnotation(&s.Claim.ObjectMeta, storage.AnnotationAhead, storage.AheadOf("milan", "n1"))
		}
		source, err := noted(&s.Volumes[0], record)
		if err != nil {
			t.Fatal(err)
		}
		s.Volumes[0] = *source
		s.Volumes[0].Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		s.protect()
		if !live {
			s.stored()
		}
		return s
	}
	s := begun(false)
	if step := Next(s); step.Action != Nothing || step.Late == nil {
		t.Errorf("nobody says that the name is free: %+v", step)
	}
	if vouch(&s, "milan", nil); Next(s).Action != Delete || Next(s).Object != storage.Object(s.Claim) {
		t.Errorf("%+v", Next(s))
	}
	home := begun(false)
	home.Volumes[0].Labels, home.Volumes[0].Spec.NodeAffinity = map[string]string{storage.LabelTenant: "liqo-tenant-naples"}, storage.NodesOf("naples")
	home.Volumes[0].Annotations["pv.kubernetes.io/provisioned-by"] = storage.Provisioner
	vouch(&home, "milan", nil)
	if step := Next(home); step.Action != Nothing || step.Late == nil || !strings.Contains(step.Why, "the virtual kubelet of node naples to confirm that PersistentVolumeClaim data of its cluster has the data") {
		t.Errorf("nobody vouches for the source: %+v", step)
	}
	ahead := begun(true)
	delete(ahead.Claim.Annotations, storage.AnnotationAhead)
	if step := Next(ahead); step.Action != Nothing || step.Late == nil || !strings.Contains(step.Why, "no other PersistentVolumeClaim of its cluster has the name data") {
		t.Errorf("a volume is reserved although nobody says that the name is free: %+v", step)
	}
	vouch(&ahead, "milan", nil)
	if step := Next(ahead); step.Action != Patch || step.Object.GetAnnotations()[storage.AnnotationAhead] != storage.AheadOf("milan", "n1") {
		t.Errorf("%+v", step)
	}
	for _, live := range []bool{false, true} {
		s := begun(live)
		delete(s.Claim.Annotations, storage.AnnotationAhead)
		denied := storage.State{Claim: s.Claim, Place: place("milan"), Denied: "exceeded quota: full"}
		said, ok := storage.Vouch(denied, []*corev1.PersistentVolume{&s.Volumes[0]}).Object.(*corev1.PersistentVolumeClaim)
		if !ok {
			t.Fatal("the virtual kubelet reports nothing")
		}
		s.Claim = said
		step := Next(s)
		if step.Action != Nothing || step.Err != nil || step.Within != recheckTime {
			t.Errorf("live %t: %+v", live, step)
		}
		says(t, "denied", step.Late, "--target-node milan: cluster milan denies a claim of 1Gi for the data of PersistentVolumeClaim data in namespace shop", ": exceeded quota: full",
			"The claim still has its volume", "Run the command again", "cancel the move")
	}
	for _, live := range []bool{false, true} {
		s := begun(live)
		vouch(&s, "milan", backingFor("milan", "b1", "earlier", api.True))
		step := Next(s)
		if step.Action != Nothing {
			t.Errorf("live %t: %+v", live, step)
		}
		says(t, "retained", step.Late, "--target-node milan", "PersistentVolumeClaim data in namespace shop-rome of cluster milan is retained", "Liqo does not touch that claim")
	}
}

// TestDataComesOnlyFromTheClaimThatHasIt: the same for the source, also on the way from provider to provider and home.
func TestDataComesOnlyFromTheClaimThatHasIt(t *testing.T) {
	s := moving(t, "naples", nil)
	vouch(&s, "milan", backingFor("milan", "b1", "u2", "copy"))
	step := Next(s)
	if step.Action != Nothing || !strings.Contains(step.Why, "the virtual kubelet of node naples to confirm that PersistentVolumeClaim data of its cluster has the data") {
		t.Errorf("%+v", step)
	}
	lost := s
	vouch(&lost, "naples", backingFor("naples", "b2", "u9", ""))
	step = Next(lost)
	if step.Action != Nothing {
		t.Errorf("%+v", step)
	}
	says(t, "another one", step.Late, "node naples is to have the data of PersistentVolumeClaim data in namespace shop",
		"PersistentVolumeClaim data in namespace shop-rome of cluster naples is not the one with the data of PersistentVolume pvc-u1", "moving the claim to node naples")
	vouch(&s, "naples", backingFor("naples", "b2", "u1", ""))
	if step := Next(s); step.Action != Create || step.Object.GetAnnotations()[annotationBacking] != "b2" {
		t.Errorf("%+v", step)
	}
}

// TestPodsOfAnotherClaimAreReplaced: a pod whose claim was replaced in the provider has copied into, or from, an unknown one.
func TestPodsOfAnotherClaimAreReplaced(t *testing.T) {
	s := moving(t, "", nil)
	record, err := recordOf(&s.Volumes[0])
	if err != nil {
		t.Fatal(err)
	}
	m := &move{State: &s, source: &s.Volumes[0], record: record}
	ended := func(pod *corev1.Pod, uid types.UID) corev1.Pod {
		pod.UID, pod.Status.Phase = uid, corev1.PodSucceeded
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Message: resultMessage(precious)},
		}}}
		return *pod
	}
	sending := ended(m.moverPod(sender, m.localEnd("u1"), s.Claims[0].UID), "p1")
	receiving := m.moverPod(receiver, m.remoteEnd("milan"), "u2")
	metav1.SetMetaDataAnnotation(&receiving.ObjectMeta, annotationSender, "p1")
	s.Pods = append(s.Pods, sending, ended(on(receiving, "b1"), "p2"))
	vouch(&s, "milan", backingFor("milan", "b1", "u2", "copy"))
	step := Next(s)
	source, ok := step.Object.(*corev1.PersistentVolume)
	if step.Action != Patch || !ok {
		t.Fatalf("%+v", step)
	}
	if record, err := recordOf(source); err != nil || record.Copy != "u2" || record.Backing != "b1" {
		t.Errorf("%+v, %v", record, err)
	}
	vouch(&s, "milan", backingFor("milan", "b9", "u2", "copy"))
	if step := Next(s); step.Action != Delete || step.Object.GetName() != receiving.Name {
		t.Errorf("%+v", step)
	}
}

// TestACopyThatIsReplacedIsNotUsed: after the checksums were compared, the claim in the provider is still the one with the copy, or the old data stays.
func TestACopyThatIsReplacedIsNotUsed(t *testing.T) {
	verified := func(from string) State {
		s := moving(t, from, func(r *Record) { r.Copy, r.Backing = "u2", "b1" })
		s.Pods, s.Secrets, s.Services, s.Claims = nil, nil, nil, nil
		return s
	}
	same, other := backingFor("milan", "b1", "u2", "copy"), backingFor("milan", "b9", "u2", "copy")
	s := verified("")
	if step := Next(s); step.Action != Nothing || step.Late == nil {
		t.Errorf("nobody vouches for it: %+v", step)
	} else {
		says(t, "silent", step.Late, "is still the one with the copy", "The old data is kept in PersistentVolume pvc-u1", "liqoctl doctor")
	}
	vouch(&s, "milan", same)
	permit := Next(s)
	claim, ok := permit.Object.(*corev1.PersistentVolumeClaim)
	if permit.Action != Patch || !ok {
		t.Fatalf("%+v", permit)
	}
	s = verified("")
	vouch(&s, "milan", other)
	step := Next(s)
	source, ok := step.Object.(*corev1.PersistentVolume)
	if step.Action != Patch || !ok {
		t.Fatalf("%+v", step)
	}
	if record, err := recordOf(source); err != nil || record.Copy != "" || record.Backing != "" || record.Checksum != "" {
		t.Errorf("%+v, %v", record, err)
	}
	// Pods may use the claim from here on.
	for backing, released := range map[*corev1.PersistentVolumeClaim]bool{same: true, other: false, nil: false} {
		s := verified("")
		s.Claim = claim.DeepCopy()
		s.Claim.Status.Conditions = nil
		s.Claim.Spec.VolumeName, s.Claim.Status.Phase = "pvc-u2", corev1.ClaimBound
		copied := virtual("pvc-u2", "milan")
		s.Volumes = append(s.Volumes, copied)
		vouch(&s, "milan", backing)
		step := Next(s)
		if home, ok := step.Object.(*corev1.Namespace); ok { // from here on others may create claims of this name
			if s.Home = home; !released || home.Annotations[storage.AnnotationMovingClaims] != "" {
				t.Errorf("%v: %+v", backing, step)
			}
			step = Next(s)
		}
		if next, ok := step.Object.(*corev1.PersistentVolume); released != (ok && next.Name == "pvc-u1") {
			t.Errorf("%v: %+v", backing, step)
		}
		if backing == other {
			says(t, "another one", step.Err, "PersistentVolumeClaim data in cluster milan is not the one with the copy any more", "the old data is kept in PersistentVolume pvc-u1", "kubectl patch pv pvc-u2", "Retain")
		}
	}
}
