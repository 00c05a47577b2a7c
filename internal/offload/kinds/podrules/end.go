package podrules

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Conclusive reports whether the final phase of a remote Pod counts even if it results from the Pod's deletion. With policy Never, a Pod must not run
// again after any end. With OnFailure, it has ended only if it succeeded. With Always, the Pod is recreated.
func Conclusive(phase corev1.PodPhase, policy corev1.RestartPolicy) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return api.PhaseFinal(phase)
	case corev1.RestartPolicyOnFailure:
		return phase == corev1.PodSucceeded
	default:
		return false
	}
}

// Refused returns local as Pending, with a message for the user why it is not offloaded.
func Refused(local *corev1.Pod, message string) *corev1.Pod {
	out := local.DeepCopy()
	out.Status.Phase, out.Status.Reason, out.Status.Message = corev1.PodPending, offloadingv1beta1.PodOffloadingBackOff, message
	return out
}

// Aborted returns local as Failed. The provider has ended its offloading, or its namespace is no longer offloaded.
func Aborted(local *corev1.Pod, message string) *corev1.Pod {
	return ended(local, corev1.PodFailed, 1, offloadingv1beta1.PodOffloadingAborted, message)
}

// exitKilled is the exit code of a container that was killed: 128 and the number of SIGKILL. A kubelet reports it for each container whose
// termination it did not observe.
const exitKilled = 137

// Removed returns local as Failed. It is for a Pod that a user deleted, and of which nothing is left in the provider.
func Removed(local *corev1.Pod) *corev1.Pod {
	return ended(local, corev1.PodFailed, exitKilled, offloadingv1beta1.PodRemoteTerminated, "the pod was deleted, and nothing of it runs in the provider")
}

// End returns the part of a finished Pod's status that a ShadowPod keeps: the fields that controllers act on. It is nil for other Pods.
func End(pod *corev1.Pod) *corev1.PodStatus {
	if !api.PodFinished(pod) {
		return nil
	}
	s := pod.Status.DeepCopy()
	out := &corev1.PodStatus{
		Phase: s.Phase, Reason: s.Reason, Message: s.Message, Conditions: s.Conditions, StartTime: s.StartTime, PodIP: s.PodIP, PodIPs: s.PodIPs,
	}
	for i := range out.Conditions {
		out.Conditions[i].ObservedGeneration, out.Conditions[i].LastProbeTime = 0, metav1.Time{}
	}
	keep := func(list []corev1.ContainerStatus) []corev1.ContainerStatus {
		var kept []corev1.ContainerStatus
		for i := range list {
			c := &list[i]
			kept = append(kept, corev1.ContainerStatus{
				Name: c.Name, State: c.State, LastTerminationState: c.LastTerminationState, RestartCount: c.RestartCount, Image: c.Image, ImageID: c.ImageID,
				ContainerID: c.ContainerID, Started: c.Started,
			})
		}
		return kept
	}
	out.InitContainerStatuses, out.ContainerStatuses = keep(s.InitContainerStatuses), keep(s.ContainerStatuses)
	return out
}

// RemoteTerminated returns local in the final phase that its ShadowPod reports for a deleted remote Pod. It includes the status that the ShadowPod
// kept. A ShadowPod of an earlier release kept only the phase.
func RemoteTerminated(local *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, o Options) *corev1.Pod {
	phase := shadow.Status.Phase
	if end := shadow.Status.Pod; end != nil && end.Phase == phase {
		remote := &corev1.Pod{Status: *end.DeepCopy()}
		remote.UID = types.UID(local.Annotations[AnnotationRemoteUID])
		return PodStatus(local, remote, o)
	}
	var exitCode int32
	if phase == corev1.PodFailed {
		exitCode = 1
	}
	return ended(offloaded(local), phase, exitCode, offloadingv1beta1.PodRemoteTerminated, "the remote pod had finished before it was removed")
}

// ended returns a copy of local in a final phase: not ready, and with no running container. Containers without an observed end get exitCode.
func ended(local *corev1.Pod, phase corev1.PodPhase, exitCode int32, reason, message string) *corev1.Pod {
	out := local.DeepCopy()
	s := &out.Status
	s.Phase, s.Reason, s.Message = phase, reason, message
	for i := range s.Conditions {
		if t := s.Conditions[i].Type; t == corev1.PodReady || t == corev1.ContainersReady {
			s.Conditions[i].Status, s.Conditions[i].Reason = corev1.ConditionFalse, reason
		}
	}
	s.ContainerStatuses = terminated(s.ContainerStatuses, local.Spec.Containers, reason, exitCode)
	// Init and ephemeral containers end only if they were last seen running.
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].State.Running != nil {
				end(&list[i], reason, exitCode)
			}
		}
	}
	return out
}

// terminated returns a terminated status for every container of spec. Containers without an observed end get exitCode.
func terminated(have []corev1.ContainerStatus, spec []corev1.Container, reason string, exitCode int32) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, 0, len(spec))
	for i := range spec {
		c := corev1.ContainerStatus{Name: spec[i].Name, Image: spec[i].Image}
		if j := slices.IndexFunc(have, func(h corev1.ContainerStatus) bool { return h.Name == spec[i].Name }); j >= 0 {
			c = *have[j].DeepCopy()
		}
		end(&c, reason, exitCode)
		out = append(out, c)
	}
	return out
}

// end sets the status of a container to terminated, unless it is terminated already.
func end(c *corev1.ContainerStatus, reason string, exitCode int32) {
	c.Ready, c.Started = false, new(false)
	if c.State.Terminated != nil {
		return
	}
	terminated := &corev1.ContainerStateTerminated{ExitCode: exitCode, Reason: reason, ContainerID: c.ContainerID}
	if c.State.Running != nil {
		terminated.StartedAt = c.State.Running.StartedAt
	}
	c.State = corev1.ContainerState{Terminated: terminated}
}
