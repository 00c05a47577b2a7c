package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/network"
)

// liveTimeout is the timeout for reading the facts for an explanation from all clusters.
const liveTimeout = 30 * time.Second

// Live reads the facts about all clusters and explains the path between two ends.
func Live(ctx context.Context, all []*session.Cluster, from, to string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	clusters, err := clustersOf(ctx, all)
	if err != nil {
		return nil, err
	}
	explanation, err := explanationOf(clusters, from, to)
	if err != nil {
		return nil, err
	}
	return view(&explanation), nil
}

// explanationOf resolves both ends and returns the explanation of the path between them.
func explanationOf(clusters []cluster, source, target string) (network.Explanation, error) {
	from, err := resolveEnd(clusters, source, nil)
	if err != nil {
		return network.Explanation{}, fmt.Errorf("SOURCE %s: %w", source, err)
	}
	to, err := resolveEnd(clusters, target, &from)
	if err != nil {
		return network.Explanation{}, fmt.Errorf("TARGET %s: %w", target, err)
	}
	if from.Cluster == to.Cluster {
		return network.Explanation{}, fmt.Errorf("%s and %s are both in cluster %s: their packets stay in its own network, and no gateway is on the way",
			from, to, from.Cluster)
	}
	plain := make([]network.Cluster, len(clusters))
	for i, c := range clusters {
		plain[i] = c.Cluster
	}
	return network.Explain(plain, from, to), nil
}

// explain prints the explanation of the path between two ends. It fails if the path is broken.
func explain(out *console.Console, clusters []cluster, source, target, format string) error {
	explanation, err := explanationOf(clusters, source, target)
	if err != nil {
		return err
	}
	if format == "" {
		if _, err := fmt.Fprint(out.Out(), explanation.String()); err != nil {
			return err
		}
	} else if err := cmdline.Write(out.Out(), view(&explanation), format); err != nil {
		return err
	}
	if explanation.Fault == nil {
		return nil
	}
	for _, c := range clusters {
		for _, problem := range c.Problems {
			out.Warn("cluster %s: %s", c.ID, problem)
		}
	}
	return fmt.Errorf("the path from %s to %s is broken: %s", explanation.From, explanation.To, explanation.Fault)
}

// resolveEnd converts an argument of the user to an end. If a target is only an address, without a cluster, it is the address that the
// source calls.
func resolveEnd(clusters []cluster, text string, source *network.End) (network.End, error) {
	parts := strings.Split(text, "/")
	local := &clusters[0]
	named := false
	if _, err := netip.ParseAddr(parts[len(parts)-1]); len(parts) == 3 || len(parts) == 2 && err == nil {
		i := slices.IndexFunc(clusters, func(c cluster) bool { return c.ID == parts[0] })
		if i < 0 {
			return network.End{}, fmt.Errorf("cluster %s is not one of the given clusters (%s)", parts[0], clusterNames(clusters))
		}
		local, parts, named = &clusters[i], parts[1:], true
	}
	switch len(parts) {
	case 1:
		address, err := netip.ParseAddr(parts[0])
		if err != nil {
			return network.End{}, errors.New("it is neither an address nor [cluster/]namespace/pod")
		}
		if source != nil && !named {
			return seenAs(clusters, *source, address)
		}
		return local.endOf(address), nil
	case 2:
		return podEnd(clusters, local, parts[0], parts[1])
	}
	return network.End{}, errors.New("want [cluster/]namespace/pod or [cluster/]address")
}

func clusterNames(clusters []cluster) string {
	names := make([]string, len(clusters))
	for i, c := range clusters {
		names[i] = c.ID
	}
	return strings.Join(names, ", ")
}

// podEnd returns the end for a pod in the cluster where it really runs. The local pod may be offloaded to a provider.
func podEnd(clusters []cluster, c *cluster, namespace, name string) (network.End, error) {
	pod := c.pod(namespace, name)
	if pod == nil {
		return network.End{}, fmt.Errorf("there is no pod %s/%s in the pod network of cluster %s (pods there: %s)",
			namespace, name, c.ID, c.podNames(namespace))
	}
	i := slices.IndexFunc(c.objects.Nodes, func(n corev1.Node) bool { return n.Name == pod.Spec.NodeName })
	if i < 0 {
		return network.End{}, fmt.Errorf("pod %s/%s of cluster %s runs on no node yet", namespace, name, c.ID)
	}
	provider := c.objects.Nodes[i].Labels[api.LabelRemoteClusterID]
	if provider == "" {
		address, err := netip.ParseAddr(pod.Status.PodIP)
		if err != nil {
			return network.End{}, fmt.Errorf("pod %s/%s of cluster %s has no address yet", namespace, name, c.ID)
		}
		return network.End{Cluster: c.ID, Name: namespace + "/" + name, Address: address, Node: pod.Spec.NodeName}, nil
	}
	j := slices.IndexFunc(clusters, func(c cluster) bool { return c.ID == provider })
	if j < 0 {
		return network.End{}, fmt.Errorf("pod %s/%s runs in cluster %s, which is not one of the given clusters (%s): add its --remote-kubeconfig",
			namespace, name, provider, clusterNames(clusters))
	}
	remoteNamespace := c.remoteNamespace(provider, namespace)
	if remoteNamespace == "" {
		return network.End{}, fmt.Errorf("namespace %s of cluster %s has no remote namespace in cluster %s: offload it with liqoctl offload namespace %s",
			namespace, c.ID, provider, namespace)
	}
	return podEnd(clusters, &clusters[j], remoteNamespace, name)
}

func (c *cluster) pod(namespace, name string) *corev1.Pod {
	for i, pod := range c.objects.Pods {
		if pod.Namespace == namespace && pod.Name == name {
			return &c.objects.Pods[i]
		}
	}
	return nil
}

// podNames returns the names of the pods in a namespace, or "none".
func (c *cluster) podNames(namespace string) string {
	var names []string
	for _, pod := range c.objects.Pods {
		if pod.Namespace == namespace {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return cmp.Or(strings.Join(names, ", "), "none")
}

// remoteNamespace returns the name of the remote namespace in a provider. It is empty if there is none.
func (c *cluster) remoteNamespace(provider, namespace string) string {
	for _, m := range c.maps {
		// A NamespaceMap that a consumer replicated to this cluster has the name of this cluster, not of the provider.
		if m.Labels[api.LabelRemoteClusterID] == provider || m.Labels[api.LabelRemoteID] == provider || m.Name == provider {
			if remoteNamespace := m.Spec.DesiredMapping[namespace]; remoteNamespace != "" {
				return remoteNamespace
			}
		}
	}
	return ""
}

// endOf returns the end with an address in its own cluster: a node, a pod, or only the address.
func (c *cluster) endOf(address netip.Addr) network.End {
	end := network.End{Cluster: c.ID, Address: address}
	for _, node := range c.Facts.Nodes {
		if slices.Contains(node.Addresses, address) {
			end.Name, end.Node = "node "+node.Name, node.Name
		}
	}
	for _, pod := range c.objects.Pods {
		if pod.Status.PodIP == address.String() && pod.DeletionTimestamp == nil {
			if _, real := c.Facts.Node(pod.Spec.NodeName); real {
				end.Name, end.Node = pod.Namespace+"/"+pod.Name, pod.Spec.NodeName
			}
		}
	}
	return end
}

// seenAs returns the end that the source reaches at an address. It reverses the address translations cluster by cluster, until it reaches
// the cluster that owns the address.
func seenAs(clusters []cluster, source network.End, address netip.Addr) (network.End, error) {
	at := source.Cluster
	for range clusters { // no path is longer than that
		i := slices.IndexFunc(clusters, func(c cluster) bool { return c.ID == at })
		if i < 0 {
			return network.End{}, fmt.Errorf("the path leads to cluster %s, which is not one of the given clusters (%s): add its --remote-kubeconfig",
				at, clusterNames(clusters))
		}
		c := &clusters[i]
		peer, ok := c.peerSeenAt(address)
		if !ok {
			return c.endOf(address), nil
		}
		translation, _ := c.Facts.Translation(peer)
		wire, err := translation.ToReal(address)
		if err != nil {
			return network.End{}, err
		}
		j := slices.IndexFunc(clusters, func(c cluster) bool { return c.ID == peer })
		if j < 0 {
			at = peer
			continue
		}
		back, ok := clusters[j].Facts.Translation(c.ID)
		if !ok {
			return network.End{}, fmt.Errorf("cluster %s has no valid Configuration of cluster %s: run liqoctl doctor on %s to find the problem",
				peer, c.ID, peer)
		}
		if address, err = back.FromWire(wire); err != nil {
			return network.End{}, fmt.Errorf("in cluster %s: %w", peer, err)
		}
		at = peer
	}
	return network.End{}, errors.New("routing loop between the clusters: compare their Configurations")
}

// peerSeenAt returns the peer whose ranges, as mapped in this cluster, contain the address.
func (c *cluster) peerSeenAt(address netip.Addr) (string, bool) {
	for _, peer := range c.Facts.Peers {
		for _, view := range peer.Views() {
			if view.Contains(address) {
				return peer.ClusterID, true
			}
		}
	}
	return "", false
}

// Fields is the JSON and YAML form of an explanation.
type Fields struct {
	From endFields `json:"from"`
	To   endFields `json:"to"`
	// Address is the address that the source uses for the target. Seen is the address that the target sees as the source.
	Address string       `json:"address,omitempty"`
	Seen    string       `json:"seen,omitempty"`
	There   []hopFields  `json:"there"`
	Back    []hopFields  `json:"back"`
	Whole   bool         `json:"whole"`
	Fault   *faultFields `json:"fault,omitempty"`
}

type endFields struct {
	Cluster string `json:"cluster"`
	Name    string `json:"name,omitempty"`
	Address string `json:"address"`
	Node    string `json:"node,omitempty"`
}

type hopFields struct {
	Cluster string       `json:"cluster,omitempty"`
	Kind    string       `json:"kind"`
	Name    string       `json:"name,omitempty"`
	Steps   []stepFields `json:"steps"`
}

type stepFields struct {
	Before string `json:"before"`
	After  string `json:"after"`
	By     string `json:"by"`
}

type faultFields struct {
	Cluster string `json:"cluster"`
	Object  string `json:"object"`
	Text    string `json:"text"`
}

func view(e *network.Explanation) Fields {
	end := func(e network.End) endFields { return endFields{e.Cluster, e.Name, e.Address.String(), e.Node} }
	hops := func(all []network.Hop) []hopFields {
		out := []hopFields{}
		for _, h := range all {
			hop := hopFields{Cluster: h.Cluster, Kind: h.Kind, Name: h.Name, Steps: []stepFields{}}
			for _, s := range h.Steps {
				hop.Steps = append(hop.Steps, stepFields{s.Before.String(), s.After.String(), s.By})
			}
			out = append(out, hop)
		}
		return out
	}
	out := Fields{From: end(e.From), To: end(e.To), There: hops(e.There), Back: hops(e.Back), Whole: e.Fault == nil}
	if e.Address.IsValid() {
		out.Address = e.Address.String()
	}
	if e.Seen.IsValid() {
		out.Seen = e.Seen.String()
	}
	if e.Fault != nil {
		out.Fault = &faultFields{e.Fault.Cluster, e.Fault.Object, e.Fault.Text}
	}
	return out
}
