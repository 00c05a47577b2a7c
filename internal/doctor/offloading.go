package doctor

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/storage"
)

type peer = corev1beta1.ForeignCluster

func virtualNodes(r *report) {
	for i := range r.VirtualNodes {
		virtual := &r.VirtualNodes[i]
		r.about(partVirtualNode, virtual.Spec.ClusterID)
		name := fmt.Sprintf("VirtualNode %s in namespace %s", virtual.Name, virtual.Namespace)
		makes := virtual.Spec.CreateNode == nil || *virtual.Spec.CreateNode
		for _, condition := range virtual.Status.Conditions {
			if condition.Status != offloadingv1beta1.VirtualNodeRunning && (makes || condition.Type != offloadingv1beta1.VirtualNodeNode) {
				r.fail(fmt.Sprintf("see kubectl -n %s describe deployment/vk-%s", virtual.Namespace, virtual.Name), "%s: %s is %s, %s: %s",
					name, condition.Type, condition.Status, condition.Reason, condition.Message).fromManager = true
			}
		}
		if !makes {
			continue
		}
		at := slices.IndexFunc(r.Nodes, func(n corev1.Node) bool { return n.Name == virtual.Name })
		if at < 0 {
			r.fail(fmt.Sprintf("its virtual kubelet makes it: see kubectl -n %s logs deployment/vk-%s", virtual.Namespace, virtual.Name),
				"%s has no Node", name)
			continue
		}
		node := &r.Nodes[at]
		r.about(partNode, virtual.Spec.ClusterID)
		for _, condition := range node.Status.Conditions {
			switch {
			case condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue:
				finding := r.fail("see the access to, and the connection with, cluster "+virtual.Spec.ClusterID+": liqoctl info peer "+virtual.Spec.ClusterID,
					"Node %s is not Ready: %s, %s", node.Name, condition.Reason, condition.Message)
				finding.silent = r.silent(virtual.Spec.ClusterID, condition)
				finding.untunneled = condition.Message == offload.NodeNetworkDown
			case condition.Type != corev1.NodeReady && condition.Status == corev1.ConditionTrue:
				finding := r.warn("what the provider says of itself: ask its administrator", "Node %s: %s, %s", node.Name, condition.Type, condition.Message)
				finding.untunneled = condition.Type == corev1.NodeNetworkUnavailable
			}
		}
		if node.Spec.Unschedulable {
			r.warn("kubectl uncordon "+node.Name, "Node %s takes no pods: it is cordoned", node.Name)
		}
	}
	if len(r.VirtualNodes) > 0 {
		r.healthy("%d, all running and Ready", len(r.VirtualNodes))
	}
}

// serverReplied matches the errors of an API server that responds: its certificate is not accepted, or its reply has another status than 200.
var serverReplied = regexp.MustCompile(`x509: |: requesting \S+: \d{3} `)

// silent reports whether condition Ready of a virtual node shows that the API server of the provider does not respond. A virtual node can lack access to it for
// a reason of its own, such as a NetworkPolicy. So its condition counts only if the ForeignCluster says the same, or as long as the controller manager may not
// have noticed yet.
func (r *report) silent(provider string, ready corev1.NodeCondition) bool {
	established, _ := r.reaches(provider)
	return strings.HasPrefix(ready.Message, offload.NodeSilent) && !serverReplied.MatchString(ready.Message) && !r.inBand(provider) && !r.answers(provider) &&
		(!established || r.now.Sub(ready.LastTransitionTime.Time) < silence)
}

// namespaces checks the offloaded namespaces: the phase of each, and whether two of them want the same remote namespace in one provider.
func namespaces(r *report) {
	type claim struct {
		namespace string
		providers []string
	}
	claims := map[string][]claim{} // by the name of the remote namespace
	nodes := r.labeledVirtualNodes()
	for _, o := range byAge(r.Offloadings) {
		r.about(partOffloading, failing(o))
		switch o.Status.OffloadingPhase {
		case offloadingv1beta1.PhaseReady:
		case offloadingv1beta1.PhaseNoClusterSelected:
			r.warn("peer with a cluster whose virtual node matches, or select all clusters: liqoctl offload namespace "+o.Namespace+" --selector=",
				"namespace %s is offloaded, and no cluster is selected", o.Namespace)
		default:
			finding := r.fail("see kubectl describe namespaceoffloading -n "+o.Namespace, "namespace %s: %s%s", o.Namespace, phase(o), unreadyRemoteNamespaces(o))
			finding.fromManager = o.Status.OffloadingPhase == ""
			if finding.unanswered = r.uncreated(o, r.peer); finding.unanswered {
				finding.Cure = there(r.peer) + "; " + finding.Cure
			}
		}
		remote := offload.RemoteNamespace(&o.Spec, o.Namespace, r.ID)
		mine := claim{o.Namespace, offload.Selected(o.Spec.ClusterSelector, nodes)}
		for _, other := range claims[remote] {
			shared := slices.DeleteFunc(slices.Clone(mine.providers), func(id string) bool { return !slices.Contains(other.providers, id) })
			if len(shared) > 0 {
				r.fail("liqoctl unoffload namespace "+o.Namespace+" (deletes its remote namespaces), then offload it with another name (--remote-namespace-name) or to other clusters (--selector)",
					"namespaces %s and %s both want to be %s in %s %s", other.namespace, o.Namespace, remote, plural(len(shared), "cluster"), strings.Join(shared, ", "))
				break
			}
		}
		claims[remote] = append(claims[remote], mine)
	}
	if len(r.Offloadings) > 0 {
		r.healthy("%d offloaded, all ready", len(r.Offloadings))
	}
}

// retained reports the volumes whose claim was deleted while a provider still has their data. As long as the provider has the data, it keeps the remote
// namespace. Users may not know about such a volume, because they no longer see a claim.
func retained(r *report) {
	var all []*corev1.PersistentVolume
	for i := range r.Retained {
		all = append(all, &r.Retained[i])
	}
	full := map[string]bool{}
	for _, volume := range all {
		provider, claim := volume.Labels[api.LabelRemoteClusterID], storage.DataOf(volume)
		r.about(partRetained, provider)
		if storage.IsRecovered(volume) {
			full[provider] = full[provider] || storage.RecoveredFull(all, provider)
			if volume.DeletionTimestamp == nil {
				r.warn(storage.Reuse(volume), "PersistentVolume %s of claim %s in namespace %s was recovered: cluster %s has %s of data that no claim here uses",
					volume.Name, claim.Name, claim.Namespace, provider, volume.Spec.Capacity.Storage())
				continue
			}
		}
		node, before := provider, fmt.Sprintf("create a virtual node of cluster %[1]s, without which no pod reaches the data: liqoctl create resourceslice %[1]s --remote-cluster-id %[1]s. Then ", provider)
		if at := slices.IndexFunc(r.VirtualNodes, func(n offloadingv1beta1.VirtualNode) bool { return n.Spec.ClusterID == provider }); at >= 0 {
			node, before = r.VirtualNodes[at].Name, ""
		}
		r.warn(before+storage.CopyOut(volume, node), "%s in cluster %s", storage.Describe(volume, nil), provider)
	}
	for _, provider := range slices.Sorted(maps.Keys(full)) {
		if r.about(partRetained, provider); full[provider] {
			r.warn("let claims use the recovered volumes above", "%s", storage.RecoveredMore(provider))
		}
	}
}

// byAge returns the offloaded namespaces in the order of their creation: of two that want the same name, the first has it.
func byAge(all []offloadingv1beta1.NamespaceOffloading) []*offloadingv1beta1.NamespaceOffloading {
	ordered := make([]*offloadingv1beta1.NamespaceOffloading, len(all))
	for i := range all {
		ordered[i] = &all[i]
	}
	slices.SortStableFunc(ordered, func(a, b *offloadingv1beta1.NamespaceOffloading) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return ordered
}

// labeledVirtualNodes returns the virtual nodes with the labels of their Nodes added. Cluster selectors match these too.
func (r *report) labeledVirtualNodes() []offloadingv1beta1.VirtualNode {
	out := slices.Clone(r.VirtualNodes)
	for i := range out {
		labels := map[string]string{}
		maps.Copy(labels, out[i].Labels)
		if at := slices.IndexFunc(r.Nodes, func(n corev1.Node) bool { return n.Name == out[i].Name }); at >= 0 {
			maps.Copy(labels, r.Nodes[at].Labels)
		}
		out[i].Labels = labels
	}
	return out
}

func phase(o *offloadingv1beta1.NamespaceOffloading) string {
	if o.Status.OffloadingPhase == "" {
		return "the controller manager has not reconciled it yet"
	}
	return string(o.Status.OffloadingPhase)
}

// failing returns the first cluster in which the remote namespace is not ready. It is empty if there is none.
func failing(o *offloadingv1beta1.NamespaceOffloading) string {
	for _, id := range slices.Sorted(maps.Keys(o.Status.RemoteNamespacesConditions)) {
		for _, condition := range o.Status.RemoteNamespacesConditions[id] {
			if condition.Type == offloadingv1beta1.RemoteNamespaceReady && condition.Status != corev1.ConditionTrue {
				return id
			}
		}
	}
	return ""
}

// uncreated reports whether a provider has not answered the request for a remote namespace in time. Its controller manager creates remote namespaces.
func (r *report) uncreated(o *offloadingv1beta1.NamespaceOffloading, provider string) bool {
	return slices.ContainsFunc(o.Status.RemoteNamespacesConditions[provider], func(c offloadingv1beta1.RemoteNamespaceCondition) bool {
		return c.Type == offloadingv1beta1.RemoteNamespaceReady && c.Reason == offloadingv1beta1.ReasonCreating && r.now.Sub(c.LastTransitionTime.Time) > waitTime
	})
}

// unreadyRemoteNamespaces describes the remote namespaces that are not ready, one entry per cluster.
func unreadyRemoteNamespaces(o *offloadingv1beta1.NamespaceOffloading) string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(o.Status.RemoteNamespacesConditions)) {
		for _, condition := range o.Status.RemoteNamespacesConditions[id] {
			if condition.Type == offloadingv1beta1.RemoteNamespaceReady && condition.Status != corev1.ConditionTrue {
				at := ""
				if condition.Reason == offloadingv1beta1.ReasonCreating {
					at = since(condition.LastTransitionTime)
				}
				out = append(out, fmt.Sprintf("cluster %s: %s%s: %s", id, condition.Reason, at, condition.Message))
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, "; ") + ")"
}

// moves names the claims whose data is being moved. An unfinished move that no liqoctl continues keeps the pods of its claim from starting.
func moves(r *report) {
	for i := range r.Moves {
		volume := &r.Moves[i]
		claim := storage.ReservedFor(volume)
		node, _ := storage.MoveTarget(volume)
		if node == "" {
			node = "NODE"
		}
		absent := ""
		if !r.Claims[claim] {
			absent = ", and the claim does not exist, so its pods can't start"
		}
		r.about(partMove, "")
		r.warn(fmt.Sprintf("if no liqoctl runs it now, continue it: liqoctl move volume %s --namespace %s --target-node %s; or cancel it: the same command with a node of the cluster that has the data",
			claim.Name, claim.Namespace, node),
			"the move of PersistentVolumeClaim %s in namespace %s is unfinished: its data is in PersistentVolume %s%s", claim.Name, claim.Namespace, volume.Name, absent)
	}
}
