package move

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// partition names the virtual nodes of an unfinished move that are not Ready, because their cluster does not respond. It is empty if all are Ready, or if no move has
// begun. The move waits meanwhile, and loses nothing.
func (s *State) partition() string {
	source := s.underway()
	if source == nil {
		return ""
	}
	nodes := []*corev1.Node{s.node(s.Node)}
	if provider := providerOf(source); provider != "" {
		nodes = append(nodes, s.nodeOf(provider))
	}
	var out []string
	for _, node := range nodes {
		if Away(node) && storage.ProviderOf(node) != "" {
			out = append(out, fmt.Sprintf("node %s is not Ready%s, so the move waits until cluster %s responds", node.Name, unready(node), storage.ProviderOf(node)))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return strings.Join(out, ", ") + ". To cancel the move without it, move the claim to a node of the cluster that has the data"
}

// Away reports whether a node exists and is not Ready.
func Away(node *corev1.Node) bool { return node != nil && !ready(node) }

// HasData reports whether pods on a node can use the old data of an unfinished move.
func (s *State) HasData(node *corev1.Node) bool {
	source := s.underway()
	return source != nil && admits(source, node)
}

// forced deletes, without waiting for their cluster, pods of a cancelled move whose deletion a provider does not confirm, because it is unreachable or its virtual node
// is gone. The claim with the old volume needs none of them. The virtual kubelet ends what runs there once the provider responds.
func (m *move) forced() (step Step, due bool) {
	for i := range m.Pods {
		pod := &m.Pods[i]
		if !m.ours(pod) || pod.DeletionTimestamp == nil || !forVirtualNode(pod) || pod.Spec.NodeName == "" {
			continue
		}
		if node := m.node(pod.Spec.NodeName); node == nil || !ready(node) {
			return Step{Action: Delete, Object: pod, Force: true, Phase: Returning, Why: "removing " + pod.Name + " without waiting for node " + pod.Spec.NodeName}, true
		}
	}
	return Step{}, false
}

// forVirtualNode reports whether a pod of a move was created for a virtual node.
func forVirtualNode(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == api.TaintVirtualNode })
}

// responds reports whether a provider has a virtual node that is Ready.
func (s *State) responds(provider string) bool {
	node := s.nodeOf(provider)
	return node != nil && ready(node)
}
