package kinds

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	offv1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Finished tells whether a Pod has come to its end, which nothing may take back.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Conclusive tells whether the end that a remote Pod reports holds even when it comes of its being deleted. A Pod that is to run once at most has
// ended, whoever ended it, and must not begin again; one that is restarted on failure has ended when it succeeded; one that runs for ever is
// only made again.
func Conclusive(phase corev1.PodPhase, policy corev1.RestartPolicy) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return phase == corev1.PodSucceeded || phase == corev1.PodFailed
	case corev1.RestartPolicyOnFailure:
		return phase == corev1.PodSucceeded
	default:
		return false
	}
}

// Refused returns local waiting, with the reason for which it is not offloaded in a sentence for the user.
func Refused(local *corev1.Pod, message string) *corev1.Pod {
	out := local.DeepCopy()
	out.Status.Phase, out.Status.Reason, out.Status.Message = corev1.PodPending, offv1.PodOffloadingBackOff, message
	return out
}

// Aborted returns local failed, because its offloading was taken back by the provider or with its namespace.
func Aborted(local *corev1.Pod, message string) *corev1.Pod {
	return ended(local, corev1.PodFailed, offv1.PodOffloadingAborted, message)
}

// End is what of the status of a Pod that has finished a ShadowPod keeps: what controllers act on. Nil for one that has not.
func End(pod *corev1.Pod) *corev1.PodStatus {
	if !Finished(pod) {
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

// RemoteTerminated returns local in the final phase that its ShadowPod reports although the remote Pod is gone, with all that the ShadowPod kept of that
// end. One of a release before kept only the phase.
func RemoteTerminated(local *corev1.Pod, shadow *offv1.ShadowPod, o PodOptions) *corev1.Pod {
	phase := shadow.Status.Phase
	if end := shadow.Status.Pod; end != nil && end.Phase == phase {
		remote := &corev1.Pod{Status: *end.DeepCopy()}
		remote.UID = types.UID(local.Annotations[AnnotationRemoteUID])
		return PodStatus(local, remote, o)
	}
	return ended(offloaded(local), phase, offv1.PodRemoteTerminated, "the remote pod had finished before it was removed")
}

// ended returns a copy of local in a final phase: not ready, and no container running.
func ended(local *corev1.Pod, phase corev1.PodPhase, reason, message string) *corev1.Pod {
	out := local.DeepCopy()
	s := &out.Status
	s.Phase, s.Reason, s.Message = phase, reason, message
	var exitCode int32
	if phase == corev1.PodFailed {
		exitCode = 1
	}
	for i := range s.Conditions {
		if t := s.Conditions[i].Type; t == corev1.PodReady || t == corev1.ContainersReady {
			s.Conditions[i].Status, s.Conditions[i].Reason = corev1.ConditionFalse, reason
		}
	}
	s.ContainerStatuses = terminated(s.ContainerStatuses, local.Spec.Containers, reason, exitCode)
	// Of the others those end that were seen to run.
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].State.Running != nil {
				end(&list[i], reason, exitCode)
			}
		}
	}
	return out
}

// terminated returns the status of every container of spec, those that were not seen to end ending with exitCode.
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

// end turns the status of a container into that of one that has ended, if it does not say so itself.
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
