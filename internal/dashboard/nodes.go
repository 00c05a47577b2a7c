package dashboard

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/peering/sharing"
)

// nodeDocument describes a virtual node.
type nodeDocument struct {
	Cluster  string `json:"cluster"`
	Name     string `json:"name"`
	Provider string `json:"provider"`
	// State is Ready, or the reason why the node is not ready.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	Health  Health `json:"health"`
	// Pods counts the unfinished pods on the node.
	Pods      int                `json:"pods"`
	Resources []resourceDocument `json:"resources"`
}

// resourceDocument describes one resource of a virtual node, in cores, bytes or pieces.
type resourceDocument struct {
	Name    string  `json:"name"`
	Granted float64 `json:"granted"`
	// Requested is the sum of the requests of the pods on the node. Used is what they use, by the metrics API; it is left out if it is not known.
	Requested float64  `json:"requested"`
	Used      *float64 `json:"used,omitempty"`
	// Free is the unused part of the grant, but at most the free resources of the provider. Known means that the provider's free resources are known;
	// without its kubeconfig, Free is the unused part of the grant.
	Free  float64 `json:"free"`
	Known bool    `json:"known,omitempty"`
}

func (d Documents) nodes(state *State) {
	free := map[string]corev1.ResourceList{}
	for i := range state.Clusters {
		if c := &state.Clusters[i]; c.Complete && c.Failure == "" {
			free[c.ID] = sharing.Free(c.Nodes, c.Pods)
		}
	}
	for i := range state.Clusters {
		c := &state.Clusters[i]
		requested, pods := requestedOn(c.Pods)
		listed := map[string]bool{}
		for _, virtual := range byAge(c.VirtualNodes) {
			if listed[virtual.Name] {
				continue // if several VirtualNodes have the same node name, the first one has the Node
			}
			listed[virtual.Name] = true
			document := nodeDocument{Cluster: c.ID, Name: virtual.Name, Provider: virtual.Spec.ClusterID, Pods: pods[virtual.Name]}
			granted := virtual.Spec.ResourceQuota.Hard
			node := nodeOf(c, virtual.Name)
			if node != nil && len(node.Status.Allocatable) > 0 {
				granted = node.Status.Allocatable
			}
			document.judge(virtual, node)
			document.Resources = resourcesOf(granted, requested[virtual.Name], c.Usage[virtual.Name], free[virtual.Spec.ClusterID])
			d.add(document, "node", c.ID, virtual.Name)
		}
	}
}

// nodeOf returns the Node of a VirtualNode, or nil if there is none.
func nodeOf(c *Cluster, name string) *corev1.Node {
	for i := range c.Nodes {
		if c.Nodes[i].Name == name && c.Nodes[i].Labels[api.LabelType] == api.TypeVirtualNode {
			return &c.Nodes[i]
		}
	}
	return nil
}

// judge sets the state and the health of a virtual node.
func (d *nodeDocument) judge(virtual *offloadingv1beta1.VirtualNode, node *corev1.Node) {
	d.State, d.Health = "Unknown", Warning
	if node == nil {
		for _, condition := range virtual.Status.Conditions {
			if condition.Type == offloadingv1beta1.VirtualNodeNode {
				d.State, d.Message = string(condition.Status), condition.Message
			}
		}
		if create := virtual.Spec.CreateNode; create != nil && !*create {
			d.State, d.Health = "No Node requested", None
		}
		return
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			d.State, d.Health = "Ready", Good
		} else {
			d.State, d.Message, d.Health = cmp.Or(condition.Reason, "NotReady"), condition.Message, Bad
		}
	}
	if node.Spec.Unschedulable && d.Health == Good {
		d.State, d.Health = "Cordoned", Warning
	}
}

// requestedOn returns, by node, the sum of the resource requests of the pods that are not finished, and how many of these pods there are.
func requestedOn(pods []corev1.Pod) (requested map[string]corev1.ResourceList, count map[string]int) {
	requested, count = map[string]corev1.ResourceList{}, map[string]int{}
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName == "" || api.PodFinished(pod) {
			continue
		}
		count[pod.Spec.NodeName]++
		sums := requested[pod.Spec.NodeName]
		if sums == nil {
			sums = corev1.ResourceList{}
			requested[pod.Spec.NodeName] = sums
		}
		api.AddResources(sums, sharing.PodUse(pod))
	}
	return requested, count
}

// resourcesOf returns the resources of a virtual node: cpu, memory and pods first, then the others by name. used has
// the measured resources only. free is nil if the free resources of the provider could not be read.
func resourcesOf(granted, requested, used, free corev1.ResourceList) []resourceDocument {
	out := []resourceDocument{}
	for name, amount := range granted {
		have, request := amount.AsApproximateFloat64(), requested[name]
		document := resourceDocument{Name: string(name), Granted: have, Requested: request.AsApproximateFloat64(), Known: free != nil}
		if use, measured := used[name]; measured {
			document.Used = new(use.AsApproximateFloat64())
		}
		document.Free = max(0, have-document.Requested)
		if left, there := free[name]; there {
			document.Free = min(document.Free, left.AsApproximateFloat64())
		}
		out = append(out, document)
	}
	first := []string{string(corev1.ResourceCPU), string(corev1.ResourceMemory), string(corev1.ResourcePods)}
	rank := func(name string) int {
		if i := slices.Index(first, name); i >= 0 {
			return i
		}
		return len(first)
	}
	slices.SortFunc(out, func(a, b resourceDocument) int {
		return cmp.Or(cmp.Compare(rank(a.Name), rank(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return out
}
