package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offv1 "liqo.io/liqo/api/offloading/v1beta1"
)

// What the local Pod tells beside its status, and reasons of its conditions.
const (
	// LabelRemoteUnavailable ("true"), on a local Pod, tells that it is not ready because its provider, or the network to it, is out of reach.
	LabelRemoteUnavailable = "liqo.io/remote-unavailable"
	// AnnotationRestarts, on a local Pod whose remote Pod was made again, holds the restarts of its containers in the former
	// ones: name=count, separated by commas.
	AnnotationRestarts = "offloading.liqo.io/restarts"
	// AnnotationRemoteUID, on a local Pod, is the UID of the remote Pod whose status it shows, by which the next one is told from it.
	AnnotationRemoteUID = "offloading.liqo.io/remote-uid"
	// AnnotationOffloaded, on a local Pod, is its own UID once a ShadowPod was made for it. The label that says so to people and selectors is
	// no proof: it comes along when a manifest is made from an offloaded Pod.
	AnnotationOffloaded = "offloading.liqo.io/offloaded"
	// reasonRemoteTerminating is why a Pod whose remote Pod is on its way out, to be replaced, is not ready.
	reasonRemoteTerminating = "RemotePodTerminating"
	// reasonRemoteUnavailable is why such a Pod is not ready.
	reasonRemoteUnavailable = "RemoteUnavailable"
)

// PodStatus returns local with the status that remote, its Pod in the provider, gives it, and with the label of an offloaded Pod. Both
// travel in one write.
//
// The remote status is taken whole, except for what only the local API server or the local cluster can know: quality of service,
// nominated node, resource claims, generation, conditions that others set here. A remote Pod that is being deleted while the local one
// is not will be made again by the provider, unless its end is conclusive: its phase says nothing about the local Pod, which is only not ready
// meanwhile.
func PodStatus(local, remote *corev1.Pod, o PodOptions) *corev1.Pod {
	out := offloaded(local)
	dying := !remote.DeletionTimestamp.IsZero() && local.DeletionTimestamp.IsZero()
	if dying && !Conclusive(remote.Status.Phase, local.Spec.RestartPolicy) {
		notReady(&out.Status, local, reasonRemoteTerminating)
		localTimes(out, local, false, o.Now)
		mark(out, o.Unavailable)
		return out
	}
	s := remote.Status.DeepCopy()
	s.QOSClass = local.Status.QOSClass
	s.NominatedNodeName = local.Status.NominatedNodeName
	s.ResourceClaimStatuses = local.Status.ResourceClaimStatuses
	s.NodeAllocatableResourceClaimStatuses = local.Status.NodeAllocatableResourceClaimStatuses
	s.ExtendedResourceClaimStatus = local.Status.ExtendedResourceClaimStatus
	s.ObservedGeneration = observed(s.ObservedGeneration, local.Generation, local.Status.ObservedGeneration)
	s.Conditions = conditions(local, remote, o)
	addresses(s, o)
	restarts(out, s, remote)
	out.Status = *s
	unavailable := o.Unavailable && !Finished(out)
	if unavailable {
		notReady(&out.Status, local, reasonRemoteUnavailable)
	}
	localTimes(out, local, another(local, remote), o.Now)
	mark(out, unavailable)
	return out
}

// ShownStatus is PodStatus with what the ShadowPod reports beside the remote Pod, and why the provider refused a change of resources just now; empty if it did not.
func ShownStatus(local *corev1.Pod, shadow *offv1.ShadowPod, remote *corev1.Pod, refusal string, o PodOptions) *corev1.Pod {
	out := PodStatus(local, remote, o)
	withResize(out, local, shadow, refusal)
	if !o.Now.IsZero() {
		if c := condition(out, corev1.PodResizePending); c != nil && c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = metav1.NewTime(o.Now.Truncate(time.Second))
			if shown := condition(local, corev1.PodResizePending); shown != nil && !shown.LastTransitionTime.IsZero() {
				c.LastTransitionTime = shown.LastTransitionTime
			}
		}
	}
	return out
}

// another tells whether the local Pod shows another remote Pod than that one.
func another(local, remote *corev1.Pod) bool {
	shown := local.Annotations[AnnotationRemoteUID]
	return Offloaded(local) && shown != "" && shown != string(remote.UID)
}

// Unreachable returns local as it is while its provider is out of reach: not ready, so that no Service sends to it, and nothing else said.
func Unreachable(local *corev1.Pod) *corev1.Pod {
	out := local.DeepCopy()
	notReady(&out.Status, local, reasonRemoteUnavailable)
	mark(out, true)
	return out
}

// mark puts LabelRemoteUnavailable on a Pod, or takes it off.
func mark(pod *corev1.Pod, unavailable bool) {
	if !unavailable {
		delete(pod.Labels, LabelRemoteUnavailable)
		return
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[LabelRemoteUnavailable] = "true"
}

// AddressProblem tells why the address of a remote Pod is not shown, nil if it is or will be.
func AddressProblem(remote *corev1.Pod, o PodOptions) error {
	if o.TranslateIP == nil || remote.Status.PodIP == "" {
		return nil
	}
	_, err := o.TranslateIP(remote.Status.PodIP)
	return err
}

// Offloaded tells whether a ShadowPod was made for this very Pod.
func Offloaded(local *corev1.Pod) bool {
	return local.UID != "" && local.Annotations[AnnotationOffloaded] == string(local.UID)
}

// offloaded returns a copy of local with the label and the annotation that say so.
func offloaded(local *corev1.Pod) *corev1.Pod {
	out := local.DeepCopy()
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	out.Labels[offv1.LabelShadowPod] = "true"
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	if !Offloaded(local) {
		// Those of the Pod that the manifest was taken from.
		delete(out.Annotations, AnnotationRestarts)
		delete(out.Annotations, AnnotationRemoteUID)
	}
	out.Annotations[AnnotationOffloaded] = string(local.UID)
	return out
}

// addresses gives a status the addresses that are true here.
func addresses(s *corev1.PodStatus, o PodOptions) {
	s.HostIP, s.HostIPs = o.HostIP, nil
	if o.HostIP != "" {
		s.HostIPs = []corev1.HostIP{{IP: o.HostIP}}
	}
	if o.TranslateIP == nil {
		return
	}
	s.PodIPs = nil // also without a PodIP: the API server here would take the first of them for it
	if s.PodIP == "" {
		return
	}
	address, err := o.TranslateIP(s.PodIP)
	if err != nil {
		address = ""
	}
	s.PodIP = address
	if address != "" {
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
}

// conditions are the remote ones, but for readiness gates that are told from here, and after them those that somebody set on the local Pod and
// the remote one does not have: readiness gates of local controllers, the traces of an eviction. Of the remote Pod shown before, nothing stays.
func conditions(local, remote *corev1.Pod, o PodOptions) []corev1.PodCondition {
	out := make([]corev1.PodCondition, 0, len(remote.Status.Conditions)+1)
	told := ParseGates(remote.Annotations[AnnotationGates])
	for _, c := range remote.Status.Conditions {
		if _, ours := told[c.Type]; ours && condition(local, c.Type) != nil {
			continue
		}
		var before int64
		if shown := condition(local, c.Type); shown != nil {
			before = shown.ObservedGeneration
		}
		c.ObservedGeneration = observed(c.ObservedGeneration, local.Generation, before)
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse { // "0/1 nodes are available": of whom?
			c.Message = "in cluster " + o.Destination + ": " + c.Message
		}
		out = append(out, c)
	}
	another := another(local, remote)
	for _, c := range local.Status.Conditions {
		known := slices.ContainsFunc(out, func(have corev1.PodCondition) bool { return have.Type == c.Type })
		_, ours := told[c.Type]
		gate := slices.ContainsFunc(local.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == c.Type })
		if !known && !kubelets(c.Type) && (ours || !gate || !another) {
			out = append(out, c)
		}
	}
	return out
}

// observed is the generation that a status, or a condition, says to be about: the local one, if that of the remote Pod says anything. If it does not,
// what was said before stays: an API server takes that back from nobody, and it would be tried again and again.
func observed(remote, local, before int64) int64 {
	if remote == 0 {
		return before
	}
	return local
}

// kubelets tells whether only the node's agent and the scheduler speak with this condition.
func kubelets(t corev1.PodConditionType) bool {
	switch t {
	case corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized, corev1.PodReadyToStartContainers,
		corev1.PodResizePending, corev1.PodResizeInProgress:
		return true
	default:
		return false
	}
}

// notReady turns the Ready condition to False, keeping the time of the change if it was False in local for the same reason.
func notReady(s *corev1.PodStatus, local *corev1.Pod, reason string) {
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if c.Type != corev1.PodReady || c.Status != corev1.ConditionTrue {
			continue
		}
		c.Status, c.Reason = corev1.ConditionFalse, reason
		for _, old := range local.Status.Conditions {
			if old.Type == c.Type && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
				// The local control plane turns the condition too, without a reason: it is the same fact, not worth a write.
				c.Reason, c.Message = old.Reason, old.Message
			}
		}
	}
}

// restarts adds to the counts of s, which is remote's status, those of the remote Pods that came before it. Another remote Pod than the one
// shown so far keeps what was counted, and the end of that one counts as a restart of every container that ran. Pods are told apart by
// their UID: clocks of nodes and API servers differ.
//
// A new Pod has no containers until a node has taken it. Those that always restart are told all the same if they were counted: counts never go
// back. Others Kubernetes lets not leave their end, but one that is not told may be told anew: so it is not, once.
func restarts(out *corev1.Pod, s *corev1.PodStatus, remote *corev1.Pod) {
	base := parseRestarts(out.Annotations[AnnotationRestarts])
	before := slices.Concat(out.Status.InitContainerStatuses, out.Status.ContainerStatuses)
	shown := out.Annotations[AnnotationRemoteUID]
	another := shown != "" && shown != string(remote.UID)
	if another {
		for i := range before {
			c := &before[i]
			base[c.Name] = max(base[c.Name], c.RestartCount)
			if ran(c) {
				base[c.Name]++
			}
		}
		if len(base) > 0 {
			out.Annotations[AnnotationRestarts] = formatRestarts(base)
		}
	}
	out.Annotations[AnnotationRemoteUID] = string(remote.UID)
	for _, of := range []struct {
		statuses   *[]corev1.ContainerStatus
		containers []corev1.Container
	}{{&s.InitContainerStatuses, out.Spec.InitContainers}, {&s.ContainerStatuses, out.Spec.Containers}} {
		if another {
			*of.statuses = slices.DeleteFunc(*of.statuses, func(now corev1.ContainerStatus) bool {
				i := slices.IndexFunc(of.containers, func(c corev1.Container) bool { return c.Name == now.Name })
				ended := func(c corev1.ContainerStatus) bool { return c.Name == now.Name && c.State.Terminated != nil }
				return now.State.Terminated == nil && i >= 0 && !alwaysRestarts(out, &of.containers[i]) && slices.ContainsFunc(before, ended)
			})
		}
		list := *of.statuses
		for i := range list {
			list[i].RestartCount += base[list[i].Name]
		}
		for i := range of.containers {
			c := &of.containers[i]
			told := slices.ContainsFunc(list, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
			if count := base[c.Name]; count > 0 && !told && alwaysRestarts(out, c) && !Finished(remote) {
				*of.statuses = append(*of.statuses, corev1.ContainerStatus{
					Name: c.Name, Image: c.Image, RestartCount: count, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}},
				})
			}
		}
	}
}

// alwaysRestarts tells whether a container may leave its end, whatever that was.
func alwaysRestarts(pod *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	}
	return pod.Spec.RestartPolicy == corev1.RestartPolicyAlways
}

// ran tells whether a container was started at least once.
func ran(c *corev1.ContainerStatus) bool {
	return c.ContainerID != "" || c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
}

func formatRestarts(base map[string]int32) string {
	parts := make([]string, 0, len(base))
	for _, name := range slices.Sorted(maps.Keys(base)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, base[name]))
	}
	return strings.Join(parts, ",")
}

func parseRestarts(s string) map[string]int32 {
	base := map[string]int32{}
	for part := range strings.SplitSeq(s, ",") {
		name, count, _ := strings.Cut(part, "=")
		if n, err := strconv.ParseInt(count, 10, 32); err == nil && n > 0 {
			base[name] = int32(n)
		}
	}
	return base
}

// Starting tells whether a status is of a Pod on its ordinary way to being ready, which nobody needs to be told at every step.
func Starting(s *corev1.PodStatus) bool {
	if s.Phase != corev1.PodPending && s.Phase != corev1.PodRunning || s.Reason != "" {
		return false
	}
	for _, c := range s.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return false
		}
	}
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		waiting := c.State.Waiting
		if c.RestartCount > 0 || s.Phase == corev1.PodRunning && c.State.Terminated != nil || waiting != nil && waiting.Reason != "" && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing" {
			return false
		}
	}
	return true
}
