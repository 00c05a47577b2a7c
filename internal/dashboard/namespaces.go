package dashboard

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// namespaceDocument describes an offloaded namespace, or a remote namespace of a consumer whose kubeconfig was not given.
type namespaceDocument struct {
	Cluster string `json:"cluster"`
	Name    string `json:"name"`
	// Consumer is set for a remote namespace only, Strategy for an offloaded one only.
	Consumer string                                  `json:"consumer,omitempty"`
	Strategy offloadingv1beta1.PodOffloadingStrategy `json:"strategy,omitempty"`
	Phase    string                                  `json:"phase"`
	Health   Health                                  `json:"health"`
	Message  string                                  `json:"message,omitempty"`
	// Places are the clusters in which pods of the namespace run or may run, by ID. A place without an ID counts the pods that are not bound to a
	// node.
	Places []placeDocument `json:"places"`
	// Volumes counts the claims with volumes of Liqo. It is nil if there are none.
	Volumes *volumesDocument `json:"volumes,omitempty"`
}

// placeDocument counts the pods of a namespace in one cluster.
type placeDocument struct {
	Cluster string `json:"cluster"`
	// Namespace is the name of the remote namespace. It is empty in the cluster of the namespace itself.
	Namespace string `json:"namespace,omitempty"`
	Running   int    `json:"running"`
	Pods      int    `json:"pods"`
}

// podDocument describes a pod of an offloaded namespace.
type podDocument struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Place is the cluster in which the pod runs. It is empty until the pod is bound to a node.
	Place string `json:"place,omitempty"`
	Node  string `json:"node,omitempty"`
	// State is the phase, or the reason why the pod does not run.
	State  string `json:"state"`
	Health Health `json:"health"`
}

func (d Documents) namespaces(state *State) {
	for i := range state.Clusters {
		c := &state.Clusters[i]
		providers := map[string]string{} // of virtual nodes, by name
		for j := range c.Nodes {
			if node := &c.Nodes[j]; node.Labels[api.LabelType] == api.TypeVirtualNode {
				providers[node.Name] = node.Labels[api.LabelRemoteClusterID]
			}
		}
		offloaded := hosted(state, c)
		for _, offloading := range slices.Backward(byAge(c.Offloadings)) { // the first one is the last one to be set
			offloaded[offloading.Namespace] = namespaceOf(c, offloading)
		}
		for j := range c.Pods {
			pod := &c.Pods[j]
			document := offloaded[pod.Namespace]
			if document == nil {
				continue
			}
			of := podOf(c.ID, providers, pod)
			if !api.PodFinished(pod) {
				document.count(&of)
			}
			d.add(of, "pod", c.ID, pod.Namespace, pod.Name)
		}
		for _, claim := range claimsOf(c, func(namespace string) bool { return offloaded[namespace] != nil }) {
			document := offloaded[claim.Namespace]
			document.Volumes = document.Volumes.add(&claim)
			d.add(claim, "claim", c.ID, claim.Namespace, claim.Name)
		}
		for name, document := range offloaded {
			slices.SortFunc(document.Places, func(a, b placeDocument) int { return cmp.Compare(a.Cluster, b.Cluster) })
			d.add(document, "namespace", c.ID, name)
		}
	}
}

// hosted describes the remote namespaces in a cluster, without their pods. It leaves out the remote namespaces of consumers whose kubeconfigs were
// given: the documents of the offloaded namespaces in these consumers count the same pods.
func hosted(state *State, c *Cluster) map[string]*namespaceDocument {
	out := map[string]*namespaceDocument{}
	for _, m := range byAge(c.Maps) {
		consumer := m.Labels[api.LabelOriginID]
		if consumer == "" || state.cluster(consumer) != nil {
			continue
		}
		for _, origin := range sortedKeys(m.Status.CurrentMapping) {
			remote := m.Status.CurrentMapping[origin]
			if out[remote.RemoteNamespace] != nil {
				continue
			}
			document := &namespaceDocument{
				Cluster: c.ID, Name: remote.RemoteNamespace, Consumer: consumer, Phase: cmp.Or(string(remote.Phase), "Unknown"), Health: Warning,
				Places: []placeDocument{{Cluster: c.ID}},
			}
			switch remote.Phase {
			case offloadingv1beta1.MappingAccepted:
				document.Health = Good
			case offloadingv1beta1.MappingCreationLoopBackOff:
				document.Health = Bad
			}
			out[remote.RemoteNamespace] = document
		}
	}
	return out
}

// namespaceOf describes an offloaded namespace, without its pods.
func namespaceOf(c *Cluster, offloading *offloadingv1beta1.NamespaceOffloading) *namespaceDocument {
	out := &namespaceDocument{
		Cluster: c.ID, Name: offloading.Namespace, Strategy: offloading.Spec.PodOffloadingStrategy,
		Phase: cmp.Or(string(offloading.Status.OffloadingPhase), "Unknown"), Health: Warning, Places: []placeDocument{{Cluster: c.ID}},
	}
	switch offloading.Status.OffloadingPhase {
	case offloadingv1beta1.PhaseReady:
		out.Health = Good
	case offloadingv1beta1.PhaseSomeFailed, offloadingv1beta1.PhaseAllFailed:
		out.Health = Bad
	}
	for _, m := range byAge(c.Maps) {
		remote := m.Spec.DesiredMapping[offloading.Namespace]
		if remote == "" || m.Labels[api.LabelReplicated] == api.True {
			continue // a copy of a consumer's NamespaceMap, which maps namespaces of the consumer
		}
		provider := cmp.Or(m.Labels[api.LabelRemoteID], m.Name)
		if !slices.ContainsFunc(out.Places, func(p placeDocument) bool { return p.Cluster == provider }) {
			out.Places = append(out.Places, placeDocument{Cluster: provider, Namespace: remote})
		}
	}
	for _, provider := range sortedKeys(offloading.Status.RemoteNamespacesConditions) {
		for _, condition := range offloading.Status.RemoteNamespacesConditions[provider] {
			if condition.Type == offloadingv1beta1.RemoteNamespaceReady && condition.Status == corev1.ConditionFalse && out.Health == Bad {
				out.Message = fmt.Sprintf("%s: %s, %s", provider, condition.Reason, condition.Message)
			}
		}
	}
	return out
}

// count adds a pod to the place where it runs.
func (d *namespaceDocument) count(pod *podDocument) {
	i := slices.IndexFunc(d.Places, func(p placeDocument) bool { return p.Cluster == pod.Place })
	if i < 0 {
		i = len(d.Places)
		d.Places = append(d.Places, placeDocument{Cluster: pod.Place})
	}
	d.Places[i].Pods++
	if pod.Health == Good {
		d.Places[i].Running++
	}
}

// podOf describes a pod. providers has the provider of each virtual node.
func podOf(cluster string, providers map[string]string, pod *corev1.Pod) podDocument {
	out := podDocument{Cluster: cluster, Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, State: string(pod.Status.Phase), Health: Warning}
	if out.Node != "" {
		out.Place = cmp.Or(providers[out.Node], cluster)
	}
	switch {
	case pod.DeletionTimestamp != nil:
		out.State = "Terminating"
	case pod.Status.Phase == corev1.PodSucceeded:
		out.Health = None
	case pod.Status.Phase == corev1.PodFailed:
		out.State, out.Health = cmp.Or(pod.Status.Reason, out.State), Bad
	case api.PodReady(pod):
		out.Health = Good
	default:
		out.State = cmp.Or(troubleOf(pod), pod.Status.Reason, out.State)
	}
	return out
}

// troubleOf returns the reason why a container of the pod waits, or why no node was found. It is empty if the pod has none.
func troubleOf(pod *corev1.Pod) string {
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil && waiting.Reason != "" {
			return waiting.Reason
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Reason
		}
	}
	return ""
}
