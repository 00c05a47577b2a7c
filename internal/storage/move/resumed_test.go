package move

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/storage"
)

// TestAResumedCommandWaitsForItsNodes: a command that resumes a move does not delete the claim while a node that the move needs is not Ready, although the virtual
// kubelets confirmed everything before.
func TestAResumedCommandWaitsForItsNodes(t *testing.T) {
	begun := func() State {
		s := bound()
		source, err := noted(&s.Volumes[0], newRecord(s.Claim, &s.Volumes[0], s.node("milan"), &s.Request))
		if err != nil {
			t.Fatal(err)
		}
		s.Volumes[0] = *source
		s.Volumes[0].Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		s.protect()
		s.stored()
		vouch(&s, "milan", nil)
		return s
	}
	for name, away := range map[string]func(*corev1.Node) bool{
		"the target":          func(node *corev1.Node) bool { return node.Name == "milan" },
		"nodes with the data": func(node *corev1.Node) bool { return storage.ProviderOf(node) == "" },
	} {
		s := begun()
		if step := Next(s); step.Action != Delete {
			t.Errorf("all nodes are Ready: %+v", step)
		}
		for i := range s.Nodes {
			if away(&s.Nodes[i]) {
				s.Nodes[i].Status.Conditions = nil
			}
		}
		if step := Next(s); step.Action != Nothing || step.Err != nil || !strings.Contains(step.Why, "not Ready") {
			t.Errorf("%s not Ready: %+v", name, step)
		}
	}
}
