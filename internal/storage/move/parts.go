package move

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/storage"
)

// ours reports whether an object is part of this move.
func (m *move) ours(obj storage.Object) bool { return obj.GetLabels()[LabelMove] == m.id() }

// part returns the pod with that role, nil if there is none.
func (m *move) part(namespace, role string) *corev1.Pod {
	for i := range m.Pods {
		if pod := &m.Pods[i]; m.ours(pod) && pod.Namespace == namespace && pod.Labels[labelRole] == role {
			return pod
		}
	}
	return nil
}

// tidy deletes all objects that the move created. It deletes pods first, because they use the others. due is false once all are deleted.
func (m *move) tidy(phase Phase) (step Step, due bool) {
	var pods, others []storage.Object
	for i := range m.Pods {
		pods = append(pods, &m.Pods[i])
	}
	for i := range m.Claims {
		others = append(others, &m.Claims[i])
	}
	for i := range m.Services {
		others = append(others, &m.Services[i])
	}
	for i := range m.Secrets {
		others = append(others, &m.Secrets[i])
	}
	for _, objects := range [][]storage.Object{pods, others} {
		var ending storage.Object
		for _, obj := range objects {
			switch {
			case !m.ours(obj):
			case obj.GetDeletionTimestamp() == nil:
				return Step{Action: Delete, Object: obj, Phase: phase, Why: "removing " + obj.GetName()}, true
			default:
				ending = obj
			}
		}
		if ending != nil {
			return wait(phase, "%s in namespace %s to be deleted", ending.GetName(), ending.GetNamespace()), true
		}
	}
	return Step{}, false
}

// restarts returns how often the container of the move was restarted.
func restarts(pod *corev1.Pod) int32 {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == Container {
			return status.RestartCount
		}
	}
	return 0
}

// trouble describes the state of a pod, with the last error of its container.
func trouble(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		for _, ended := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
			if ended != nil && ended.ExitCode != 0 {
				return fmt.Sprintf("its container ended with code %d, %s", ended.ExitCode, ended.Message)
			}
		}
		if w := status.State.Waiting; w != nil && w.Reason != "" {
			return w.Reason + " " + w.Message
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	if pod.Status.Message != "" {
		return pod.Status.Message
	}
	return "it is " + string(pod.Status.Phase)
}
