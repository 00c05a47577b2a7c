package network

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// unattendedFor is how long no pod of a gateway may run before its tunnel counts as lost. One that is replaced runs before that.
const unattendedFor = 5 * time.Second

// ConnectionCondition is the type of the condition, of a Connection, that repeats its value for those who read conditions.
const ConnectionCondition = "Connected"

// Unattended is what a Connection says when nobody is left who could: the replica at work tells of the tunnel, and one whose node died does not. None
// of its pods runs then, or there are none. The replica's word counts again as soon as it is later than that: Kubernetes may be cut off
// from a node that works. again is when to look again, 0 for not before there is news. pods are those of the gateway.
func Unattended(before networkingv1beta1.ConnectionStatus, generation int64, pods []corev1.Pod, now time.Time) (after networkingv1beta1.ConnectionStatus, again time.Duration) {
	if before.Value != networkingv1beta1.Connected {
		return before, 0
	}
	var told time.Time
	if c := meta.FindStatusCondition(before.Conditions, ConnectionCondition); c != nil {
		told = c.LastTransitionTime.Time
	}
	if before.Latency != nil && before.Latency.Timestamp.After(told) {
		told = before.Latency.Timestamp.Time
	}
	since := told
	for i := range pods {
		there, at := runs(&pods[i])
		if there {
			return before, 0
		}
		if at.After(since) {
			since = at
		}
	}
	if len(pods) > 0 && !since.After(told) {
		return before, 0
	}
	if left := since.Add(unattendedFor).Sub(now); left > 0 {
		return before, left
	}
	after = *before.DeepCopy()
	after.Value = networkingv1beta1.ConnectionError
	meta.SetStatusCondition(&after.Conditions, metav1.Condition{
		Type: ConnectionCondition, Status: metav1.ConditionFalse, Reason: after.Value, ObservedGeneration: generation,
		Message: fmt.Sprintf("no pod of this gateway has been running since %s: look at its Deployment, and at the nodes", since.UTC().Format(time.RFC3339)),
	})
	return after, 0
}

// runs tells whether a pod does, as far as anybody knows, and since when it does not. One of which a container runs does, though it is not ready:
// its agent may be about to start anew, which is nothing to the tunnel. When Kubernetes loses sight of a node it calls the pods there not ready,
// and leaves of their containers what was heard last.
func runs(pod *corev1.Pod) (there bool, since time.Time) {
	since = pod.CreationTimestamp.Time
	var ready, containers bool
	for _, c := range pod.Status.Conditions {
		switch c.Type {
		case corev1.PodReady:
			ready, since = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		case corev1.ContainersReady:
			containers = c.Status == corev1.ConditionTrue
		}
	}
	if ready || containers { // ready containers in a pod that is not: nobody hears of them any more
		return ready, since
	}
	running := func(c corev1.ContainerStatus) bool { return c.State.Running != nil }
	return slices.ContainsFunc(pod.Status.ContainerStatuses, running), since
}
