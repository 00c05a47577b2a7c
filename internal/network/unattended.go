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

// unattendedFor is how long no pod of a gateway may run before its tunnel counts as lost. A pod that is replaced runs again within that
// time.
const unattendedFor = 5 * time.Second

// Unattended returns the status of a Connection, given the pods of its gateway. The active replica reports the state of the tunnel, but it
// cannot do so if its node died. So if the status is Connected but there are no pods, or none has run for unattendedFor, Unattended returns
// the status with the value ConnectionError.
//
// A report of the replica that is later than the end of all pods takes precedence: Kubernetes may have lost contact with a node that works.
// again is the delay after which the caller must call Unattended again; 0: only after the next change.
func Unattended(before networkingv1beta1.ConnectionStatus, generation int64, pods []corev1.Pod, now time.Time) (after networkingv1beta1.ConnectionStatus, again time.Duration) {
	if before.Value != networkingv1beta1.Connected {
		return before, 0
	}
	var reported time.Time
	if c := meta.FindStatusCondition(before.Conditions, networkingv1beta1.ConditionConnected); c != nil {
		reported = c.LastTransitionTime.Time
	}
	if before.Latency != nil && before.Latency.Timestamp.After(reported) {
		reported = before.Latency.Timestamp.Time
	}
	since := reported
	for i := range pods {
		there, at := runs(&pods[i])
		if there {
			return before, 0
		}
		if at.After(since) {
			since = at
		}
	}
	if len(pods) > 0 && !since.After(reported) {
		return before, 0
	}
	if left := since.Add(unattendedFor).Sub(now); left > 0 {
		return before, left
	}
	after = *before.DeepCopy()
	after.Value = networkingv1beta1.ConnectionError
	meta.SetStatusCondition(&after.Conditions, metav1.Condition{
		Type: networkingv1beta1.ConditionConnected, Status: metav1.ConditionFalse, Reason: after.Value, ObservedGeneration: generation,
		Message: fmt.Sprintf("no pod of this gateway has been running since %s: check its Deployment and the nodes", since.UTC().Format(time.RFC3339)),
	})
	return after, 0
}

// runs reports whether a pod runs, as far as Kubernetes knows, and since when it does not. A pod with a running container runs even if it
// is not ready: its agent may be restarting, which does not affect the tunnel. When Kubernetes loses contact with a node, it marks the pods
// there as not ready, and keeps the last known state of their containers.
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
	if ready || containers { // ready containers in a pod that is not ready: Kubernetes lost contact with the node
		return ready, since
	}
	running := func(c corev1.ContainerStatus) bool { return c.State.Running != nil }
	return slices.ContainsFunc(pod.Status.ContainerStatuses, running), since
}
