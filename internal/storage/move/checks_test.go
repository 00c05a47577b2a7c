package move

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// places returns where the checks of a move run that has not begun: role, namespace and node, or "volume" if the scheduler selects a node that has the volume.
func (s *State) places(t *testing.T) (out []string) {
	t.Helper()
	s.Pods = slices.DeleteFunc(s.Pods, func(pod corev1.Pod) bool { return pod.Labels[labelRole] != "" })
	for range 9 {
		step := Next(*s)
		pod, ok := step.Object.(*corev1.Pod)
		if !ok || step.Action != Create {
			if step.Action != Patch || step.Err != nil {
				t.Fatalf("%v: %+v", out, step)
			}
			return out
		}
		where := "nowhere"
		switch {
		case pod.Spec.NodeName != "":
			where = pod.Spec.NodeName
		case pod.Spec.Affinity != nil:
			term := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
			if where = "volume"; len(term.MatchFields) > 0 {
				where = term.MatchFields[0].Values[0]
			}
		}
		if forVirtualNode(pod) != (pod.Spec.NodeName != "") {
			t.Errorf("%s tolerates %v", where, pod.Spec.Tolerations)
		}
		out = append(out, strings.Join([]string{pod.Labels[labelRole], pod.Namespace, where}, " "))
		pod.Status.Phase = corev1.PodSucceeded
		s.Pods = append(s.Pods, *pod)
	}
	t.Fatalf("no end: %v", out)
	return nil
}

// TestChecksRunAtBothEnds: before the first change, a pod with the image of the move runs wherever pods of the move will run. In this cluster, that is the storage
// namespace, on a node that the volume permits, for a live move next to the pods, and on the target. The store is in the namespace of the claim.
func TestChecksRunAtBothEnds(t *testing.T) {
	pinned := func(s *State) {
		node := onNode("n1").NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		node[0].MatchExpressions, node[0].MatchFields = []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}, nil
		s.Volumes[0].Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: node}}
	}
	far := func(s *State) { s.Volumes[0] = virtual("pvc-u1", "naples") }
	for name, row := range map[string]struct {
		state  State
		target string
		want   []string
	}{
		"into a provider":   {bound(pinned), "milan", []string{"check-source liqo-storage volume", "check-target shop milan"}},
		"a live move":       {running(pinned), "milan", []string{"check-source liqo-storage n1", "check-target shop milan"}},
		"out of a provider": {bound(far), "n2", []string{"check-source shop naples", "check-target liqo-storage n2", "check-store shop n2"}},
		"between providers": {bound(far), "milan", []string{"check-source shop naples", "check-target shop milan"}},
		"between two nodes": {bound(pinned), "n2", []string{"check-source liqo-storage volume", "check-target liqo-storage n2", "check-store shop n2"}},
	} {
		s := row.state
		s.Node = row.target
		if got := s.places(t); !slices.Equal(got, row.want) {
			t.Errorf("%s: checks %v, want %v", name, got, row.want)
		}
	}
}

// TestAnImageThatThisClusterCannotPull: a check in this cluster that does not run ends the command before the first change. The error names the pod, its node, the
// image and the cure, and the command leaves no check. If the command is killed, Kubernetes deletes the checks together with the old volume or the claim.
func TestAnImageThatThisClusterCannotPull(t *testing.T) {
	for target, far := range map[string]bool{"milan": false, "n2": true} {
		s := bound(func(s *State) {
			s.Image = "registry.example.org/volume-mover:v9"
			if far {
				s.Volumes[0] = virtual("pvc-u1", "naples")
			}
			s.Volumes[0].UID = "v1"
		})
		s.Node = target
		s.places(t)
		for i := range s.Pods {
			pod := &s.Pods[i]
			if owner := pod.OwnerReferences; len(owner) != 1 || owner[0].UID != map[string]types.UID{shop: "u1", storageNS: "v1"}[pod.Namespace] {
				t.Errorf("%s in %s: %v", pod.Name, pod.Namespace, owner)
			}
			if pod.Namespace != storageNS {
				continue
			}
			state := s
			state.Pods = slices.Clone(s.Pods)
			state.Pods[i].Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
				Name: Container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}},
			}}}
			step := Next(state)
			if step.Action != Nothing || step.Within != checkTime || len(step.Unused) != len(s.Pods) {
				t.Fatalf("%s: %+v", pod.Name, step)
			}
			says(t, pod.Name, step.Late, "pod "+pod.Name+" in namespace liqo-storage", "does not run on", "ImagePullBackOff not found", "Nothing was changed",
				"Make image registry.example.org/volume-mover:v9 available", "--image", "imagePullSecrets of ServiceAccount default in namespace liqo-storage")
			if strings.Contains(step.Late.Error(), "administrator") {
				t.Errorf("no provider is involved: %v", step.Late)
			}
			state.Pods[i].Status.Phase = corev1.PodFailed
			if step := Next(state); step.Action != Delete || step.Err == nil || len(step.Unused) != len(s.Pods)-1 {
				t.Errorf("%s: %+v", pod.Name, step)
			}
			state.Obstacle = "no such namespace"
			if step := Next(state); step.Err == nil || len(step.Unused) != len(s.Pods) {
				t.Errorf("a refused move leaves checks of an earlier command: %+v", step)
			}
		}
	}
	s := bound(func(s *State) { s.Volumes[0] = virtual("pvc-u1", "naples") })
	s.Node = "n2"
	s.places(t)
	s.Node = "n1"
	if step := Next(s); step.Action != Delete || step.Object.GetName() != "liqo-move-u1-check-target" {
		t.Errorf("the check of another target: %+v", step)
	}
	s.Node = "naples" // the data is there
	for left := 3; left > 0; left-- {
		step := Next(s)
		i := slices.IndexFunc(s.Pods, func(pod corev1.Pod) bool {
			return step.Object != nil && pod.Name == step.Object.GetName() && pod.Namespace == step.Object.GetNamespace()
		})
		if step.Action != Delete || i < 0 {
			t.Fatalf("%d checks are left: %+v", left, step)
		}
		s.Pods = slices.Delete(s.Pods, i, i+1)
	}
}
