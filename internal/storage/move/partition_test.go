package move

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// waitingClaim returns the state of a move to milan whose claim waits for its data, with the pods of the move.
func waitingClaim(t *testing.T, changes ...func(*State)) State {
	t.Helper()
	s := bound(func(s *State) { s.Image = "volume-mover:v1" })
	m := s.begun()
	source, err := noted(m.source, m.record)
	if err != nil {
		t.Fatal(err)
	}
	s.Volumes, s.Claim = []corev1.PersistentVolume{*source}, m.held()
	s.Claim.UID, s.Claim.Status.Phase = "u2", corev1.ClaimPending
	m = &move{State: &s, source: &s.Volumes[0], record: m.record}
	s.Secrets = []corev1.Secret{*m.secret(shop), *m.secret(storageNS)}
	s.Services, s.Claims = []corev1.Service{*m.service()}, []corev1.PersistentVolumeClaim{*m.repository()}
	s.Pods = []corev1.Pod{*m.storePod(), *m.moverPod(sender, m.localEnd("u1"), "")}
	s.Pods[0].Spec.NodeName, s.Pods[0].Status.Phase = "milan", corev1.PodPending
	s.Pods[1].Status.Phase = corev1.PodPending
	for _, change := range changes {
		change(&s)
	}
	s.protect()
	return s
}

func unreachableMilan(s *State) {
	s.Nodes[2].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "no response"}}
	s.Nodes[3].Status.Conditions = nil
}

// TestAPartitionIsNamed: while a provider of the move does not respond, whatever the move waits for.
func TestAPartitionIsNamed(t *testing.T) {
	s := waitingClaim(t)
	if step := Next(s); step.Action != Nothing || step.Err != nil || strings.Contains(step.Why, "not Ready") {
		t.Errorf("milan responds: %+v", step)
	}
	unreachableMilan(&s)
	step := Next(s)
	for _, part := range []string{"pod liqo-move-u1-store to be ready", "node milan is not Ready (no response)", "waits until cluster milan responds", "To cancel the move"} {
		if step.Action != Nothing || step.Err != nil || !strings.Contains(step.Why, part) {
			t.Errorf("no %q in %+v", part, step)
		}
	}
}

// TestAnotherImageReplacesPodsThatWait: an image that does not exist is corrected by --image. Pods that run keep theirs.
func TestAnotherImageReplacesPodsThatWait(t *testing.T) {
	for name, row := range map[string]struct {
		image  string
		phase  corev1.PodPhase
		action Action
	}{
		"the same image":              {"volume-mover:v1", corev1.PodPending, Nothing},
		"another image, it waits":     {"volume-mover:v2", corev1.PodPending, Delete},
		"another image, it runs":      {"volume-mover:v2", corev1.PodRunning, Nothing},
		"a webhook rewrote the image": {"volume-mover:v1", corev1.PodPending, Nothing},
	} {
		s := waitingClaim(t)
		m := &move{State: &s, source: &s.Volumes[0], record: s.recorded(t)}
		s.Image = row.image
		pod := &s.Pods[1]
		if pod.Status.Phase = row.phase; strings.Contains(name, "webhook") {
			pod.Spec.Containers[0].Image = "mirror/volume-mover:v1"
		}
		if _, step := m.run(Copying, m.moverPod(sender, m.localEnd("u1"), "")); step.Action != row.action || step.Err != nil {
			t.Errorf("%s: the sender: %+v", name, step)
		}
		s.Pods[0].Status.Phase = row.phase
		if _, step, _ := m.prepare(m.localEnd("u1"), m.remoteEnd("milan")); step.Action != row.action || step.Err != nil {
			t.Errorf("%s: the store: %+v", name, step)
		}
	}
}

func (s *State) recorded(t *testing.T) *Record {
	t.Helper()
	record, err := recordOf(&s.Volumes[0])
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// TestCancellingNeedsOnlyTheSideWithTheData: pods whose end an unreachable provider does not confirm are removed without it. If it responds, its pods end first.
func TestCancellingNeedsOnlyTheSideWithTheData(t *testing.T) {
	ending := func(s *State) {
		s.Node = "n1"
		s.Pods[0].DeletionTimestamp, s.Pods = &metav1.Time{}, s.Pods[:1]
	}
	if step := Next(waitingClaim(t, ending)); step.Action != Nothing || step.Err != nil || step.Force {
		t.Errorf("milan responds: %+v", step)
	}
	for name, change := range map[string]func(*State){"unreachable": unreachableMilan, "without a node": func(s *State) { s.Nodes = s.Nodes[:2] }} {
		s := waitingClaim(t, ending, change)
		if step := Next(s); step.Action != Delete || !step.Force || step.Object.GetName() != "liqo-move-u1-store" {
			t.Errorf("milan is %s: %+v", name, step)
		}
		s.Pods = nil
		if step := Next(s); step.Action != Delete || step.Force {
			t.Errorf("milan is %s, without its pods: %+v", name, step)
		}
	}
	s := bound(unreachableMilan, func(s *State) {
		s.Node = "n1"
		released := virtual("pvc-n1", "milan")
		released.Status.Phase = corev1.VolumeReleased
		s.Volumes = append(s.Volumes, released)
	})
	if step := Next(s); !step.Done {
		t.Errorf("the copy in milan is deleted later: %+v", step)
	}
}
