// Package node implements the virtual node: the Node object that represents a provider in this cluster, its heartbeat, and its kubelet API. The
// kubelet API forwards logs, exec, attach and port-forward of the node's pods to the provider.
package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/excerpt"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/internal/remote"
)

// annotationApplied, on a Node, lists the labels, annotations and taints that we set (see applied), so that we can remove them later.
const annotationApplied = "offloading.liqo.io/applied"

// defaultPods is the pod capacity of a VirtualNode that sets none. It is the default of a kubelet.
const defaultPods = "110"

// facts are the inputs from which a Node is derived.
type facts struct {
	// virtual is the VirtualNode.
	virtual *offloadingv1beta1.VirtualNode
	// name is the name of the Node.
	name string
	// ip and port are the address of the node's kubelet API.
	ip   string
	port int32
	// version is the version of the provider's API server, empty until it is known.
	version string
	// problem is why the provider can't run pods, nil if it can.
	problem error
	// revoked means that the provider refuses access to every remote namespace or reports a drain. If there is no remote namespace, it means that the provider
	// refuses access to the control plane of this cluster.
	revoked bool
	// networkChecked means that the network affects readiness, networkUp that the network works.
	networkChecked, networkUp bool
	// extraLabels and extraAnnotations come from the options of the virtual kubelet.
	extraLabels, extraAnnotations map[string]string
	now                           time.Time
}

// applied lists the parts of a Node, except its status, that belong to us.
type applied struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
	Taints      []string `json:"taints,omitempty"`
	// Granted are the labels that the provider granted, with their values. If the Node has another value, an administrator of this cluster has set it.
	Granted map[string]string `json:"granted,omitempty"`
}

// labels returns the keys of the labels of a Node that are ours. Labels that an administrator has changed since then are not ours any more.
func (a applied) labels(have map[string]string) []string {
	return slices.DeleteFunc(slices.Clone(a.Labels), func(key string) bool {
		written, known := a.Granted[key]
		return known && have[key] != written
	})
}

// desired returns the desired state of have, or of a new Node if have is nil. It replaces our labels, annotations and taints and sets the status.
// Labels, annotations and taints of others stay.
func desired(have *corev1.Node, f facts) *corev1.Node {
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	if have != nil {
		out = have.DeepCopy()
	}
	var before applied
	// If the annotation is missing or invalid, nothing on the Node is ours.
	_ = json.Unmarshal([]byte(out.Annotations[annotationApplied]), &before)

	labels := offload.NodeLabels(f.virtual)
	maps.Copy(labels, map[string]string{
		corev1.LabelHostname:                                      f.name,
		"kubernetes.io/role":                                      "agent",
		corev1.LabelNodeExcludeBalancers:                          api.True,
		"alpha.service-controller.kubernetes.io/exclude-balancer": api.True,
	})
	maps.Copy(labels, f.extraLabels)
	ours := before.labels(out.Labels)
	granted := grantedLabels(out.Labels, labels, ours, offload.GrantedLabels(f.virtual))
	annotations := map[string]string{}
	maps.Copy(annotations, f.virtual.Spec.Annotations)
	maps.Copy(annotations, f.extraAnnotations)
	taints := append([]corev1.Taint{{Key: api.TaintVirtualNode, Value: api.True, Effect: corev1.TaintEffectNoExecute}}, f.virtual.Spec.Taints...)

	out.Labels = replace(out.Labels, ours, labels)
	out.Annotations = replace(out.Annotations, before.Annotations, annotations)
	out.Spec.Taints = replaceTaints(out.Spec.Taints, before.Taints, taints)
	now := applied{Labels: slices.Sorted(maps.Keys(labels)), Annotations: slices.Sorted(maps.Keys(annotations)), Granted: granted}
	for _, t := range taints {
		now.Taints = append(now.Taints, taintKey(t))
	}
	text, err := json.Marshal(now)
	if err != nil {
		panic("marshalling lists of strings: " + err.Error()) // can't fail
	}
	out.Annotations[annotationApplied] = string(text)
	status(out, f)
	return out
}

// grantedLabels returns the labels in want that the provider granted. It first removes from want the labels that an administrator has set on the Node: the keys
// in have that are not in ours.
func grantedLabels(have, want map[string]string, ours []string, granted func(key, value string) bool) map[string]string {
	out := map[string]string{}
	for key, value := range want {
		if !granted(key, value) {
			continue
		}
		if _, on := have[key]; on && !slices.Contains(ours, key) {
			delete(want, key)
			continue
		}
		out[key] = value
	}
	return out
}

// replace removes the keys in ours from a copy of have and adds want.
func replace(have map[string]string, ours []string, want map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, have)
	for _, key := range ours {
		delete(out, key)
	}
	maps.Copy(out, want)
	return out
}

func replaceTaints(have []corev1.Taint, ours []string, want []corev1.Taint) []corev1.Taint {
	wanted := func(t corev1.Taint) bool {
		return slices.ContainsFunc(want, func(w corev1.Taint) bool { return taintKey(w) == taintKey(t) })
	}
	out := slices.Clone(want)
	for _, t := range have {
		if !wanted(t) && !slices.Contains(ours, taintKey(t)) {
			out = append(out, t)
		}
	}
	// If only the order of the taints differs, keep the existing order.
	if len(out) == len(have) && !slices.ContainsFunc(out, func(t corev1.Taint) bool {
		return !slices.ContainsFunc(have, func(h corev1.Taint) bool { return equality.Semantic.DeepEqual(h, t) })
	}) {
		return have
	}
	return out
}

// taintKey returns the key and effect, which identify a taint of a Node.
func taintKey(t corev1.Taint) string { return t.Key + ":" + string(t.Effect) }

func status(out *corev1.Node, f facts) {
	s := &out.Status
	s.Capacity = f.virtual.Spec.ResourceQuota.Hard.DeepCopy()
	if s.Capacity == nil {
		s.Capacity = corev1.ResourceList{}
	}
	if _, said := s.Capacity[corev1.ResourcePods]; !said {
		s.Capacity[corev1.ResourcePods] = resource.MustParse(defaultPods)
	}
	s.Allocatable = s.Capacity.DeepCopy()
	s.Images = f.virtual.Spec.Images
	s.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: f.ip}}
	s.DaemonEndpoints.KubeletEndpoint.Port = f.port
	labels := out.Labels // desired has already set them
	s.NodeInfo.OperatingSystem, s.NodeInfo.Architecture = labels[corev1.LabelOSStable], labels[corev1.LabelArchStable]
	if f.version != "" {
		s.NodeInfo.KubeletVersion = f.version
	}
	want := []corev1.NodeCondition{
		readiness(f),
		{
			Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: reasons.RemoteClusterHasSufficientMemory,
			Message: "the remote cluster has sufficient memory",
		},
		{
			Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: reasons.RemoteClusterHasNoDiskPressure,
			Message: "the remote cluster has no disk pressure",
		},
		{
			Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: reasons.RemoteClusterHasNoPIDPressure,
			Message: "the remote cluster has no PID pressure",
		},
	}
	if f.networkChecked {
		c := corev1.NodeCondition{
			Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: reasons.LiqoNetworkingUp,
			Message: "the network to the remote cluster works",
		}
		if !f.networkUp {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, reasons.LiqoNetworkingDown, offload.NodeNetworkDown
		}
		want = append(want, c)
	}
	if c := interrupted(f.virtual.Spec.InterruptedNodes); c.Status == corev1.ConditionTrue || slices.ContainsFunc(s.Conditions, isInterruption) {
		want = append(want, c)
	}
	s.Conditions = conditions(s.Conditions, want, f.now)
}

// readiness returns the condition Ready. Of several problems, it shows the one that is to be solved first.
func readiness(f facts) corev1.NodeCondition {
	c := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: reasons.KubeletNotReady}
	switch {
	case errors.Is(f.problem, remote.ErrUnauthorized):
		c.Reason = reasons.AccessRevoked
		c.Message = "the remote cluster rejects the identity of this node, which expired or was revoked (" + f.problem.Error() + "): it may have removed this cluster's tenant; " +
			"liqoctl doctor says what to do"
	case f.problem != nil:
		c.Message = offload.NodeSilent + ": " + f.problem.Error()
	case f.revoked:
		c.Reason = reasons.AccessRevoked
		c.Message = "the remote cluster refuses this cluster all access: it drained or removed this cluster's tenant; there, liqoctl activate tenant ends a drain"
	case f.networkChecked && !f.networkUp:
		c.Message = offload.NodeNetworkDown
	default:
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, reasons.KubeletReady, "the remote cluster answers"
	}
	return c
}

// ProviderNodesInterrupted is the type of a condition of a virtual node. It is True while nodes of the provider are about to be shut down or do not
// work. The condition is added when the first such node is reported.
const ProviderNodesInterrupted corev1.NodeConditionType = "ProviderNodesInterrupted"

func isInterruption(c corev1.NodeCondition) bool { return c.Type == ProviderNodesInterrupted }

// interrupted returns the condition ProviderNodesInterrupted.
func interrupted(nodes []authv1beta1.InterruptedNode) corev1.NodeCondition {
	if len(nodes) == 0 {
		return corev1.NodeCondition{
			Type: ProviderNodesInterrupted, Status: corev1.ConditionFalse, Reason: reasons.NoNodeInterrupted,
			Message: "the remote cluster reports no interrupted node",
		}
	}
	nodes = nodes[:min(len(nodes), authv1beta1.MaxInterruptedNodes)] // the provider chooses what it reports
	texts := make([]string, 0, len(nodes))
	for _, n := range nodes {
		texts = append(texts, fmt.Sprintf("%s (%s)", excerpt.Of(n.Name, kinds.MaxName), excerpt.Of(n.Cause, kinds.MaxName)))
	}
	return corev1.NodeCondition{
		Type: ProviderNodesInterrupted, Status: corev1.ConditionTrue, Reason: reasons.NodesInterrupted,
		Message: "nodes of the remote cluster are about to be shut down or do not work: " + strings.Join(texts, ", "),
	}
}

// interruptionChange returns the Event about a change of the condition ProviderNodesInterrupted, with an empty reason if there is none.
func interruptionChange(have, want *corev1.Node) (kind, reason, message string) {
	of := func(n *corev1.Node) (c corev1.NodeCondition) {
		if i := slices.IndexFunc(n.Status.Conditions, isInterruption); i >= 0 {
			c = n.Status.Conditions[i]
		}
		return c
	}
	before, after := of(have), of(want)
	switch {
	case after.Status == corev1.ConditionTrue && after.Message != before.Message:
		return corev1.EventTypeWarning, reasons.NodesInterrupted, after.Message
	case after.Status == corev1.ConditionFalse && before.Status == corev1.ConditionTrue:
		return corev1.EventTypeNormal, reasons.NoNodeInterrupted, after.Message
	}
	return "", "", ""
}

// accessChange returns the Event about a provider that denies all access from now on, with an empty reason if there is none.
func accessChange(have, want *corev1.Node) (kind, reason, message string) {
	revoked := func(n *corev1.Node) (message string, is bool) {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Reason == reasons.AccessRevoked {
				return c.Message, true
			}
		}
		return "", false
	}
	after, now := revoked(want)
	if _, before := revoked(have); before || !now {
		return "", "", ""
	}
	return corev1.EventTypeWarning, reasons.AccessRevoked, after
}

// statusFrequency is how often the conditions of a Node get a new heartbeat time if nothing changes: that of kubelets (nodeStatusReportFrequency of
// KubeletConfiguration). Health checks of nodes, such as that of Cluster API, rely on it.
const statusFrequency = 5 * time.Minute

// untilHeartbeat returns the time until the conditions of a Node need a new heartbeat time. It reads condition Ready only, because all conditions that Liqo
// sets get their heartbeat time together.
func untilHeartbeat(node *corev1.Node, now time.Time) time.Duration {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return max(statusFrequency-now.Sub(c.LastHeartbeatTime.Time), time.Second)
		}
	}
	return statusFrequency
}

// withoutHeartbeats returns a status without the times of heartbeats.
func withoutHeartbeats(status *corev1.NodeStatus) *corev1.NodeStatus {
	out := status.DeepCopy()
	for i := range out.Conditions {
		out.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	return out
}

// conditions merges want into have. A condition with the same status and reason keeps its times and its message, because error messages vary between
// attempts although the state is the same. Only the message of ProviderNodesInterrupted is part of the state. Conditions of types that only others
// set stay. NodeNetworkUnavailable is ours, so it is removed if want lacks it.
//
// All our conditions get a new heartbeat time together: when one of them changes, and when statusFrequency has passed.
func conditions(have, want []corev1.NodeCondition, now time.Time) []corev1.NodeCondition {
	out := make([]corev1.NodeCondition, 0, len(want))
	beat := false
	find := func(list []corev1.NodeCondition, t corev1.NodeConditionType) int {
		return slices.IndexFunc(list, func(c corev1.NodeCondition) bool { return c.Type == t })
	}
	for _, c := range want {
		if i := find(have, c.Type); i >= 0 && have[i].Status == c.Status && have[i].Reason == c.Reason && (!isInterruption(c) || have[i].Message == c.Message) {
			out = append(out, have[i])
			beat = beat || now.Sub(have[i].LastHeartbeatTime.Time) >= statusFrequency
			continue
		}
		beat = true
		c.LastHeartbeatTime, c.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
		if i := find(have, c.Type); i >= 0 && have[i].Status == c.Status {
			c.LastTransitionTime = have[i].LastTransitionTime
		}
		out = append(out, c)
	}
	for i := range out {
		if beat {
			out[i].LastHeartbeatTime = metav1.NewTime(now)
		}
	}
	for _, c := range have {
		if find(want, c.Type) < 0 && c.Type != corev1.NodeNetworkUnavailable {
			out = append(out, c)
		}
	}
	return out
}

// foreign reports whether a Node with our name is not a virtual node.
func foreign(n *corev1.Node) bool { return n.Labels[api.LabelType] != api.TypeVirtualNode }

// leadsTo returns nil if the Node of that name is a virtual node whose kubelet API is at that address and port. node is nil if it does not exist.
func leadsTo(node *corev1.Node, name, ip string, port int32) error {
	switch {
	case node == nil:
		return fmt.Errorf("there is no Node %s yet", name)
	case foreign(node):
		return fmt.Errorf("Node %s exists and is not a virtual node: create the VirtualNode under another name", name)
	}
	have := net.JoinHostPort(internalIP(node), strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)))
	if want := net.JoinHostPort(ip, strconv.Itoa(int(port))); have != want {
		return fmt.Errorf("Node %s still has address %s instead of the address of this pod, %s", name, have, want)
	}
	return nil
}

// internalIP returns the internal address of a Node, empty if it has none.
func internalIP(node *corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// portOf returns the port of a listen address, host:port.
func portOf(listen string) (int32, error) {
	port, err := strconv.ParseUint(listen[strings.LastIndexByte(listen, ':')+1:], 10, 16)
	return int32(port), err
}
