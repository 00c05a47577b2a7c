package move

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestChecksRunAtBothEnds: before the first change, a pod with the image of the move runs at each end, also at those in this cluster: on the target, and on a node
// that has the data and on which pods are scheduled.
func TestChecksRunAtBothEnds(t *testing.T) {
	cordoned := func(s *State) { s.Nodes[0].Spec.Unschedulable = true }
	of := func(provider string) func(*State) {
		return func(s *State) {
			s.Volumes[0] = virtual("pvc-u1", provider)
		}
	}
	for name, row := range map[string]struct {
		target string
		change func(*State)
		want   []string
	}{
		"into a provider":      {"milan", func(*State) {}, []string{"check-source n1", "check-target milan"}},
		"a node is cordoned":   {"milan", cordoned, []string{"check-source n2", "check-target milan"}},
		"out of a provider":    {"n2", of("naples"), []string{"check-source naples", "check-target n2"}},
		"between the clusters": {"milan", of("naples"), []string{"check-source naples", "check-target milan"}},
	} {
		s := bound(row.change)
		s.Node = row.target
		var got []string
		for _, pod := range s.begun().checks(s.node(row.target)) {
			got = append(got, pod.Labels[labelRole]+" "+pod.Spec.NodeName)
			if virtual := strings.HasPrefix(pod.Spec.NodeName, "n") && pod.Spec.NodeName != "naples"; forVirtualNode(pod) == virtual {
				t.Errorf("%s: %s tolerates %v", name, pod.Spec.NodeName, pod.Spec.Tolerations)
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: checks %v, want %v", name, got, row.want)
		}
	}
	s := bound()
	pod := s.begun().checks(s.node("milan"))[0]
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: Container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
	}}}
	s.Pods = []corev1.Pod{*pod}
	if step := Next(s); step.Action != Nothing || step.Late == nil || !strings.Contains(step.Late.Error(), "does not run on node "+pod.Spec.NodeName+": ImagePullBackOff") ||
		strings.Contains(step.Late.Error(), "administrator") {
		t.Errorf("%+v", step)
	}
}
