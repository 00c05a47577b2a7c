package podrules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/reasons"
)

// Labels and annotations that the virtual kubelet sets on local Pods.
const (
	// LabelRemoteUnavailable ("true"), on a local Pod, means that it is not ready because its provider, or the network to it, is unreachable.
	LabelRemoteUnavailable = "liqo.io/remote-unavailable"
	// AnnotationRestarts, on a local Pod whose remote Pod was recreated, holds the restart counts of its containers in the former remote Pods:
	// name=count, separated by commas.
	AnnotationRestarts = "offloading.liqo.io/restarts"
	// AnnotationRemoteUID, on a local Pod, is the UID of the remote Pod whose status it shows. It distinguishes that Pod from a recreated one.
	AnnotationRemoteUID = "offloading.liqo.io/remote-uid"
	// AnnotationOffloaded, on a local Pod, is the Pod's own UID once a ShadowPod was created for it; the first status from the provider writes it.
	// LabelShadowPod, the label for users and selectors, is no proof: a manifest exported from an offloaded Pod contains it.
	AnnotationOffloaded = "offloading.liqo.io/offloaded"
)

// PodStatus returns local with the status of remote, its Pod in the provider, and with the label and annotation of an offloaded Pod. One patch can
// write both.
//
// The remote status is copied as a whole, except for fields that only the local cluster knows. These are QoS class, nominated node, resource claims,
// generation, and conditions that others set on the local Pod.
//
// If the remote Pod is being deleted and the local Pod is not, the provider will recreate the remote Pod, unless its phase is conclusive
// (Conclusive). The phase of the remote Pod is ignored then; the local Pod only becomes not ready.
func PodStatus(local, remote *corev1.Pod, o Options) *corev1.Pod {
	out := offloaded(local)
	dying := !remote.DeletionTimestamp.IsZero() && local.DeletionTimestamp.IsZero()
	if dying && !Conclusive(remote.Status.Phase, local.Spec.RestartPolicy) {
		notReady(&out.Status, local, reasons.RemotePodTerminating)
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
	unavailable := o.Unavailable && !api.PodFinished(out)
	if unavailable {
		notReady(&out.Status, local, reasons.RemoteUnavailable)
	}
	localTimes(out, local, showsAnother(local, remote), o.Now)
	mark(out, unavailable)
	return out
}

// ShownStatus returns PodStatus together with the resize condition that the ShadowPod reports. If the provider refused a change of resources in this
// reconciliation, refusal is its reason, otherwise it is empty.
func ShownStatus(local *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, remote *corev1.Pod, refusal string, o Options) *corev1.Pod {
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

// showsAnother reports whether the local Pod shows the status of a remote Pod other than remote.
func showsAnother(local, remote *corev1.Pod) bool {
	shown := local.Annotations[AnnotationRemoteUID]
	return Offloaded(local) && shown != "" && shown != string(remote.UID)
}

// Unreachable returns local with the status for an unreachable provider. The Pod is not ready, so that Services send it no traffic; all else stays.
func Unreachable(local *corev1.Pod) *corev1.Pod {
	out := local.DeepCopy()
	notReady(&out.Status, local, reasons.RemoteUnavailable)
	mark(out, true)
	return out
}

// WithoutRemotePod returns local, whose remote Pod is gone, as not ready; all else stays. The provider recreates the remote Pod.
func WithoutRemotePod(local *corev1.Pod) *corev1.Pod {
	out := local.DeepCopy()
	notReady(&out.Status, local, reasons.RemotePodTerminating)
	return out
}

// mark sets LabelRemoteUnavailable on a Pod, or removes it.
func mark(pod *corev1.Pod, unavailable bool) {
	if !unavailable {
		delete(pod.Labels, LabelRemoteUnavailable)
		return
	}
	metav1.SetMetaDataLabel(&pod.ObjectMeta, LabelRemoteUnavailable, "true")
}

// AddressProblem returns why the address of a remote Pod can't be shown, nil if it is shown or will be.
func AddressProblem(remote *corev1.Pod, o Options) error {
	if o.TranslateIP == nil || remote.Status.PodIP == "" {
		return nil
	}
	_, err := o.TranslateIP(remote.Status.PodIP)
	return err
}

// Offloaded reports whether a ShadowPod was created for this very Pod.
func Offloaded(local *corev1.Pod) bool {
	return local.UID != "" && local.Annotations[AnnotationOffloaded] == string(local.UID)
}

// offloaded returns a copy of local with the label and the annotation of an offloaded Pod.
func offloaded(local *corev1.Pod) *corev1.Pod {
	out := local.DeepCopy()
	metav1.SetMetaDataLabel(&out.ObjectMeta, offloadingv1beta1.LabelShadowPod, "true")
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	if !Offloaded(local) {
		// These annotations describe another Pod: local was created from the manifest of that Pod.
		delete(out.Annotations, AnnotationRestarts)
		delete(out.Annotations, AnnotationRemoteUID)
	}
	out.Annotations[AnnotationOffloaded] = string(local.UID)
	return out
}

// addresses replaces the addresses in a status by those that are valid in this cluster.
func addresses(s *corev1.PodStatus, o Options) {
	s.HostIP, s.HostIPs = o.HostIP, nil
	if o.HostIP != "" {
		s.HostIPs = []corev1.HostIP{{IP: o.HostIP}}
	}
	if o.TranslateIP == nil {
		return
	}
	s.PodIPs = nil // also without a PodIP: the local API server would set PodIP to the first of PodIPs
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

// conditions returns the remote conditions, without the readiness gates that this cluster reports to the provider. It appends conditions that exist
// only on the local Pod: readiness gates of local controllers, and conditions such as the record of an eviction. Conditions of a former remote Pod
// are dropped.
func conditions(local, remote *corev1.Pod, o Options) []corev1.PodCondition {
	out := make([]corev1.PodCondition, 0, len(remote.Status.Conditions)+1)
	reported := ParseGates(remote.Annotations[AnnotationGates])
	for _, c := range remote.Status.Conditions {
		if _, ours := reported[c.Type]; ours && condition(local, c.Type) != nil {
			continue
		}
		var before int64
		if shown := condition(local, c.Type); shown != nil {
			before = shown.ObservedGeneration
		}
		c.ObservedGeneration = observed(c.ObservedGeneration, local.Generation, before)
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse { // the message, like "0/1 nodes are available", does not name the cluster
			c.Message = "in cluster " + o.Destination + ": " + c.Message
		}
		out = append(out, c)
	}
	another := showsAnother(local, remote)
	for _, c := range local.Status.Conditions {
		known := slices.ContainsFunc(out, func(have corev1.PodCondition) bool { return have.Type == c.Type })
		_, ours := reported[c.Type]
		gate := slices.ContainsFunc(local.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == c.Type })
		if !known && !kubelets(c.Type) && (ours || !gate || !another) {
			out = append(out, c)
		}
	}
	return out
}

// observed returns the observed generation for a local status or condition. It is the local generation if the remote one is set. Otherwise observed
// keeps the previous value: an API server ignores an attempt to reset it, so the status would be written again and again.
func observed(remote, local, before int64) int64 {
	if remote == 0 {
		return before
	}
	return local
}

// kubelets reports whether a condition belongs to the kubelet.
func kubelets(t corev1.PodConditionType) bool {
	switch t {
	case corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized, corev1.PodReadyToStartContainers,
		corev1.PodResizePending, corev1.PodResizeInProgress:
		return true
	default:
		return false
	}
}

// notReady sets the Ready condition to False. The transition time stays if the condition was False in local already.
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
				// The local control plane may have set the condition to False without a reason. That is the same state, and not worth a write.
				c.Reason, c.Message = old.Reason, old.Message
			}
		}
	}
}

// restarts adds the restart counts of former remote Pods to s, the status of remote. If remote is another Pod than the one shown so far, the former
// counts are kept, and the end of the former Pod counts as one restart of every container that ran. UIDs distinguish the remote Pods, since the
// clocks of nodes and API servers differ.
//
// A recreated Pod has no container statuses until a node accepts it. Containers with counted restarts that always restart get a status even then, so
// that their counts never decrease. Other containers can't leave the terminated state: the API server refuses such a status update. But it accepts a
// status without the container, and later a new one. So the first status of a recreated Pod omits a container that terminated in the former Pod and
// has not terminated in this one.
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
			reported := slices.ContainsFunc(list, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
			if count := base[c.Name]; count > 0 && !reported && alwaysRestarts(out, c) && !api.PodFinished(remote) {
				*of.statuses = append(*of.statuses, corev1.ContainerStatus{
					Name: c.Name, Image: c.Image, RestartCount: count, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}},
				})
			}
		}
	}
}

// alwaysRestarts reports whether a container is restarted however it terminated.
func alwaysRestarts(pod *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	}
	return pod.Spec.RestartPolicy == corev1.RestartPolicyAlways
}

// ran reports whether a container was started at least once.
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

// Starting reports whether a status belongs to a Pod that starts normally and is not ready yet. Its intermediate states need not be written one by
// one.
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
