package fakekubelet

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// statusOf returns the status that a kubelet would report for a pod at time now. All containers are running and ready, and all init
// containers have completed. A pod with the annotation CompleteAfter succeeds after that duration. A pod that is being deleted fails, as
// after SIGTERM. Timestamps of earlier events stay, so an unchanged pod gets the same status again. A pod in a final phase keeps its status.
func statusOf(pod *corev1.Pod, now time.Time, host, address netip.Addr) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	if ended(pod) {
		return status
	}
	stamp := metav1.NewTime(now.Truncate(time.Second))
	if status.StartTime == nil {
		status.StartTime = &stamp
	}
	status.ObservedGeneration = pod.Generation
	status.Message, status.Reason = "", ""
	status.HostIP = host.String()
	status.HostIPs = []corev1.HostIP{{IP: host.String()}}
	if address.IsValid() {
		status.PodIP = address.String()
		status.PodIPs = []corev1.PodIP{{IP: address.String()}}
	}

	life := stage{pod: pod, now: stamp, phase: corev1.PodRunning}
	if end, ok := completion(pod, status.StartTime.Time); ok && !now.Before(end) {
		life.phase, life.reason = corev1.PodSucceeded, "Completed"
	}
	if pod.DeletionTimestamp != nil {
		life.phase, life.reason, life.exit = corev1.PodFailed, "Error", 143
	}
	status.Phase = life.phase
	status.InitContainerStatuses = life.containers(pod.Spec.InitContainers, pod.Status.InitContainerStatuses, true)
	status.ContainerStatuses = life.containers(pod.Spec.Containers, pod.Status.ContainerStatuses, false)
	var guests []corev1.Container
	for _, guest := range pod.Spec.EphemeralContainers {
		guests = append(guests, corev1.Container(guest.EphemeralContainerCommon))
	}
	status.EphemeralContainerStatuses = life.containers(guests, pod.Status.EphemeralContainerStatuses, false)
	for i := range status.EphemeralContainerStatuses {
		// Ephemeral containers have no probes and are never ready.
		status.EphemeralContainerStatuses[i].Ready, status.EphemeralContainerStatuses[i].Started = false, nil
	}
	status.Conditions = life.conditions(pod.Status.Conditions)
	return status
}

// ended reports whether a pod's phase is final.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// completion returns the time at which a pod that started at start succeeds, or false if it never does. Kubernetes stores the start time in
// whole seconds. The duration counts from the end of that second, so that a pod never ends early.
func completion(pod *corev1.Pod, start time.Time) (time.Time, bool) {
	text, ok := pod.Annotations[CompleteAfter]
	if !ok || pod.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return time.Time{}, false
	}
	after, err := time.ParseDuration(text)
	if err != nil || after < 0 {
		return time.Time{}, false
	}
	return start.Truncate(time.Second).Add(time.Second + after), true
}

// stage is the point in the pod's lifecycle that the new status describes. phase, reason and exit (the exit code) apply to the containers too.
type stage struct {
	pod    *corev1.Pod
	now    metav1.Time
	phase  corev1.PodPhase
	reason string
	exit   int32
}

// containers returns the statuses of containers. Init containers have completed, except sidecar containers (restart policy Always).
func (s stage) containers(list []corev1.Container, before []corev1.ContainerStatus, init bool) []corev1.ContainerStatus {
	if len(list) == 0 {
		return nil
	}
	result := make([]corev1.ContainerStatus, 0, len(list))
	for i := range list {
		c := &list[i]
		var previous corev1.ContainerStatus
		for _, b := range before {
			if b.Name == c.Name {
				previous = b
			}
		}
		once := init && ptr.Deref(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways
		result = append(result, s.container(c, previous, once))
	}
	return result
}

func (s stage) container(c *corev1.Container, previous corev1.ContainerStatus, once bool) corev1.ContainerStatus {
	status := corev1.ContainerStatus{
		Name:                 c.Name,
		Image:                c.Image,
		ImageID:              "fake://" + c.Image,
		RestartCount:         previous.RestartCount,
		LastTerminationState: previous.LastTerminationState,
		VolumeMounts:         previous.VolumeMounts,
		AllocatedResources:   previous.AllocatedResources,
		Resources:            previous.Resources,
	}
	started := s.now
	switch {
	case previous.State.Running != nil:
		started = previous.State.Running.StartedAt
	case previous.State.Terminated != nil:
		started = previous.State.Terminated.StartedAt
	}
	if previous.State.Running != nil && previous.Image != c.Image {
		// A kubelet restarts a container whose image has changed.
		status.RestartCount++
		status.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Completed", StartedAt: started, FinishedAt: s.now, ContainerID: previous.ContainerID,
		}}
		started = s.now
	}
	status.ContainerID = fmt.Sprintf("fake://%s/%s/%d", s.pod.UID, c.Name, status.RestartCount)

	switch {
	case once && previous.State.Terminated != nil:
		status.State, status.Ready = previous.State, true
	case once:
		status.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: started, FinishedAt: s.now, ContainerID: status.ContainerID}
		status.Ready = true
	case s.phase == corev1.PodRunning:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: started}
		status.Ready = true
	default:
		status.State.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: s.exit, Reason: s.reason, StartedAt: started, FinishedAt: s.now, ContainerID: status.ContainerID,
		}
	}
	status.Started = ptr.To(status.State.Running != nil)
	return status
}

// conditions returns the pod's conditions after updating those that a kubelet sets.
func (s stage) conditions(before []corev1.PodCondition) []corev1.PodCondition {
	running := s.phase == corev1.PodRunning
	ready, reason := running, ""
	switch s.phase {
	case corev1.PodSucceeded:
		reason = "PodCompleted"
	case corev1.PodFailed:
		reason = "PodFailed"
	}
	gateReason := reason
	for _, gate := range s.pod.Spec.ReadinessGates {
		if running && !holds(before, gate.ConditionType) {
			ready, gateReason = false, "ReadinessGatesNotReady"
		}
	}
	result := append([]corev1.PodCondition(nil), before...)
	set := func(kind corev1.PodConditionType, value bool, reason string) {
		want := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: s.now}
		if value {
			want.Status = corev1.ConditionTrue
		}
		for i := range result {
			if result[i].Type != kind {
				continue
			}
			if result[i].Status != want.Status {
				result[i].Status, result[i].LastTransitionTime = want.Status, want.LastTransitionTime
			}
			result[i].Reason, result[i].Message = reason, ""
			return
		}
		result = append(result, want)
	}
	initialized := ""
	if s.phase == corev1.PodSucceeded {
		initialized = reason
	}
	set(corev1.PodReadyToStartContainers, running, "")
	set(corev1.PodInitialized, true, initialized)
	set(corev1.PodReady, ready, gateReason)
	set(corev1.ContainersReady, running, reason)
	set(corev1.PodScheduled, true, "")
	return result
}

func holds(conditions []corev1.PodCondition, kind corev1.PodConditionType) bool {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
