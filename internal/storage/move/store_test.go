package move

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/storage"
)

// stored adds the store of a move that has begun, which is ready.
func (s *State) stored() {
	source := s.underway()
	record, err := recordOf(source)
	if err != nil {
		panic(err)
	}
	m := &move{State: s, source: source, record: record}
	pod := m.storePod()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	s.Pods, s.Services, s.Claims = append(s.Pods, *pod), []corev1.Service{*m.service()}, []corev1.PersistentVolumeClaim{*m.repository()}
	for _, namespace := range []string{shop, storageNS} {
		s.Secrets = append(s.Secrets, *m.secret(namespace))
	}
}

// TestTheStoreRunsBeforeTheClaimIsReplaced: the volume of the encrypted copy exists before the claim is replaced. So when a provider is asked whether it denies the new
// claim, its quotas count both. A denial names both sizes, and the claim keeps its volume.
func TestTheStoreRunsBeforeTheClaimIsReplaced(t *testing.T) {
	s := bound(larger)
	source, err := noted(&s.Volumes[0], newRecord(s.Claim, &s.Volumes[0], s.node("milan"), &s.Request))
	if err != nil {
		t.Fatal(err)
	}
	s.Volumes[0] = *source
	s.Volumes[0].Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	vouch(&s, "milan", nil)
	var got []string
	for range 9 {
		step := Next(s)
		if step.Action != Create {
			break
		}
		switch obj := step.Object.(type) {
		case *corev1.Secret:
			got, s.Secrets = append(got, "Secret"), append(s.Secrets, *obj)
		case *corev1.Service:
			got, s.Services = append(got, "Service"), append(s.Services, *obj)
		case *corev1.PersistentVolumeClaim:
			obj.Status.Phase = corev1.ClaimPending
			got, s.Claims = append(got, "claim"), append(s.Claims, *obj)
		case *corev1.Pod:
			got, s.Pods = append(got, "store"), append(s.Pods, *obj)
		}
	}
	if strings.Join(got, " ") != "Secret Secret Service claim store" {
		t.Fatalf("%v, then %+v", got, Next(s))
	}
	if step := Next(s); step.Action != Nothing || !strings.Contains(step.Why, "pod liqo-move-u1-store to be ready") ||
		!strings.Contains(step.Why, "PersistentVolumeClaim liqo-move-u1, of 5760Mi for an encrypted copy, has no volume yet: kubectl describe pvc liqo-move-u1 --namespace shop") {
		t.Errorf("the store is not ready: %+v", step)
	}
	store := &s.Pods[len(s.Pods)-1]
	store.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if step := Next(s); step.Action != Patch || step.Object.GetName() != shop {
		t.Errorf("the name is reserved once the store is ready, so that the provider is asked again meanwhile: %+v", step)
	}
	denied := storage.State{Claim: s.Claim, Place: place("milan"), Denied: "exceeded quota: full, requested: requests.storage=5Gi, used: requests.storage=5760Mi, limited: requests.storage=9Gi"}
	said, ok := storage.Vouch(denied, []*corev1.PersistentVolume{&s.Volumes[0]}).Object.(*corev1.PersistentVolumeClaim)
	if !ok {
		t.Fatal("the virtual kubelet reports nothing")
	}
	refused := s
	refused.Claim = said
	refused.protect()
	step := Next(refused)
	if step.Action != Nothing || step.Within != recheckTime {
		t.Errorf("%+v", step)
	}
	says(t, "denied", step.Late, "cluster milan denies a claim of 5Gi for the data of PersistentVolumeClaim data in namespace shop, in addition to one of 5760Mi for an encrypted copy: exceeded quota: full",
		"The claim still has its volume")
	s.protect()
	s.Home.Annotations[annotationReplaced] = ""
	if step := Next(s); step.Action == Nothing || step.Err != nil {
		t.Errorf("both have room: %+v", step)
	}
	mounted := s
	mounted.Pods = append(mounted.Pods, corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "db-0"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{claimVolume("data", claimName)}},
	})
	if step := Next(mounted); step.Err == nil || step.Action != Nothing {
		t.Errorf("a pod mounts the claim meanwhile: %+v", step)
	}
}
