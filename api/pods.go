package api

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// PodReady reports whether a Pod has condition Ready with status True.
func PodReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// PodFinished reports whether the phase of a Pod is final. The containers of the Pod have ended then, and it uses no resources.
func PodFinished(pod *corev1.Pod) bool { return PhaseFinal(pod.Status.Phase) }

// PhaseFinal reports whether a phase must never change.
func PhaseFinal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
