package podrules

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// localTimes replaces, in the status for a local Pod, timestamps of the provider's clock by timestamps of this cluster's clock, since local
// controllers compare them with their own clock. A state that the local Pod (shown) has already keeps its time, so that no write is caused by a
// timestamp alone.
//
// A condition gets the time when it was first observed here. Times of containers stay, but are limited to the lifetime of the local Pod.
func localTimes(pod, shown *corev1.Pod, anotherPod bool, now time.Time) {
	if now.IsZero() {
		return
	}
	at := metav1.NewTime(now.Truncate(time.Second))
	s := &pod.Status
	for i := range s.Conditions {
		c := &s.Conditions[i]
		before := condition(shown, c.Type)
		if before != nil && before.Status == c.Status && !before.LastTransitionTime.IsZero() && (!anotherPod || !kubelets(c.Type)) {
			c.LastTransitionTime = before.LastTransitionTime
		} else {
			c.LastTransitionTime = at
		}
	}
	life := span{shown.CreationTimestamp, at}
	if s.StartTime != nil {
		start := life.clamp(*s.StartTime)
		if shown.Status.StartTime != nil && !anotherPod {
			start = *shown.Status.StartTime
		}
		s.StartTime = &start
	}
	for _, of := range []struct{ now, before []corev1.ContainerStatus }{
		{s.InitContainerStatuses, shown.Status.InitContainerStatuses}, {s.ContainerStatuses, shown.Status.ContainerStatuses},
		{s.EphemeralContainerStatuses, shown.Status.EphemeralContainerStatuses},
	} {
		for i := range of.now {
			before := corev1.ContainerStatus{}
			if j := slices.IndexFunc(of.before, func(c corev1.ContainerStatus) bool { return c.Name == of.now[i].Name }); j >= 0 {
				before = of.before[j]
			}
			life.container(&of.now[i], &before)
		}
	}
}

// span is the lifetime of a local Pod until now.
type span struct{ from, to metav1.Time }

func (s span) clamp(t metav1.Time) metav1.Time {
	switch {
	case t.IsZero():
	case t.After(s.to.Time):
		return s.to
	case t.Before(&s.from):
		return s.from
	}
	return t
}

// container adjusts the times of one container. The argument before is the status of that container that the local Pod shows.
func (s span) container(c, before *corev1.ContainerStatus) {
	// started returns the shown start time of the container with that ID, nil if the local Pod does not show that container as running.
	started := func(id string) *metav1.Time {
		if running := before.State.Running; running != nil && before.ContainerID == id {
			return &running.StartedAt
		}
		return nil
	}
	if running := c.State.Running; running != nil {
		if at := started(c.ContainerID); at != nil {
			running.StartedAt = *at
		} else {
			running.StartedAt = s.clamp(running.StartedAt)
		}
	}
	for _, ended := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
		if ended == nil {
			continue
		}
		if shown := shownEnd(before, ended); shown != nil {
			ended.StartedAt, ended.FinishedAt = shown.StartedAt, shown.FinishedAt
			continue
		}
		if at := started(ended.ContainerID); at != nil {
			ended.StartedAt = *at
		} else {
			ended.StartedAt = s.clamp(ended.StartedAt)
		}
		if ended.FinishedAt = s.clamp(ended.FinishedAt); !ended.FinishedAt.IsZero() && ended.FinishedAt.Before(&ended.StartedAt) {
			ended.FinishedAt = ended.StartedAt
		}
	}
}

// shownEnd returns the terminated state that the local Pod shows for the same container, nil if it shows none.
func shownEnd(before *corev1.ContainerStatus, ended *corev1.ContainerStateTerminated) *corev1.ContainerStateTerminated {
	for _, shown := range []*corev1.ContainerStateTerminated{before.State.Terminated, before.LastTerminationState.Terminated} {
		if shown != nil && shown.ContainerID == ended.ContainerID && shown.ExitCode == ended.ExitCode {
			return shown
		}
	}
	return nil
}
