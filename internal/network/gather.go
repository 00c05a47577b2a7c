package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ipam"
)

// Objects are the objects of the network, as an API server reports them. Their order has no meaning.
type Objects struct {
	// LiqoNamespace is the namespace of the installation, with its Networks and the IPs of nodes.
	LiqoNamespace string
	Nodes         []corev1.Node
	// Pods are all pods in the pod network, or at least those of gateways. For the plan of a node, they also include the pods on that node.
	Pods           []corev1.Pod
	Networks       []ipamv1alpha1.Network
	IPs            []ipamv1alpha1.IP
	Configurations []networkingv1beta1.Configuration
	GatewayServers []networkingv1beta1.GatewayServer
	GatewayClients []networkingv1beta1.GatewayClient
	Connections    []networkingv1beta1.Connection
	PublicKeys     []networkingv1beta1.PublicKey
	Options        Options
}

// Problem is a reason why an object has no effect.
type Problem struct {
	// ClusterID is the ID of the peer that is left out because of the problem; empty if no peer is.
	ClusterID string
	// Object is the kind and the name of the object.
	Object string
	// Text names the field, its value and the fix, or what the object waits for.
	Text string
	// Waiting: the problem disappears without a fix when other components have done their part.
	Waiting bool
}

func (p Problem) String() string { return p.Object + ": " + p.Text }

// gathering is the state of one run of Gather.
type gathering struct {
	*Objects
	facts    Facts
	problems []Problem
	// gateways has the pods of each gateway, by its namespace and name.
	gateways map[[2]string][]*corev1.Pod
	// servers, clients and keys are sorted by precedence.
	servers []*networkingv1beta1.GatewayServer
	clients []*networkingv1beta1.GatewayClient
	keys    []*networkingv1beta1.PublicKey
}

// Gather extracts the facts from objects. It leaves out objects that are incomplete or wrong, and returns a problem for each.
func Gather(o *Objects) (Facts, []Problem) {
	g := &gathering{Objects: o, facts: Facts{Options: o.Options}}
	g.servers, g.clients, g.keys = byAge(g.GatewayServers), byAge(g.GatewayClients), byAge(g.PublicKeys)
	g.gateways = map[[2]string][]*corev1.Pod{}
	for i := range g.Pods {
		if pod := &g.Pods[i]; pod.Labels[networkingv1beta1.LabelComponent] == networkingv1beta1.ComponentGateway {
			key := [2]string{pod.Namespace, pod.Labels[networkingv1beta1.LabelGatewayName]}
			g.gateways[key] = append(g.gateways[key], pod)
		}
	}
	g.local()
	g.nodes()
	views := g.peers()
	g.exposed(views)
	g.outOfCIDRPods()
	g.system()
	slices.SortStableFunc(g.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Text, b.Text))
	})
	return g.facts, g.problems
}

// GatherTranslation extracts only what a Translation needs: Networks, IPs and the peer's Configuration. It returns false if this cluster
// has no ranges for the peer yet; the problems contain the reason.
func GatherTranslation(o *Objects, clusterID string) (Translation, []Problem, bool) {
	g := &gathering{Objects: o}
	g.local()
	var mine *Peer
	var views []netip.Prefix
	for _, p := range g.configured() {
		views = append(views, p.Views()...)
		if p.ClusterID == clusterID {
			mine = &p
		}
	}
	if mine == nil {
		g.wait(clusterID, "Configuration "+clusterID, "no Configuration maps the ranges of cluster %q yet: waiting for it and its status.remote", clusterID)
		return Translation{}, g.problems, false
	}
	g.exposed(views)
	return newTranslation(clusterID, mine.Pods, mine.External, g.facts.Pods, g.facts.Exposed), g.problems, true
}

func (g *gathering) problem(clusterID, object, format string, args ...any) {
	g.problems = append(g.problems, Problem{ClusterID: clusterID, Object: object, Text: fmt.Sprintf(format, args...)})
}

func (g *gathering) wait(clusterID, object, format string, args ...any) {
	g.problems = append(g.problems, Problem{ClusterID: clusterID, Object: object, Text: fmt.Sprintf(format, args...), Waiting: true})
}

// local reads the ranges of this cluster.
func (g *gathering) local() {
	f, external := &g.facts, ""
	for _, n := range byAge(g.Networks) {
		kind := n.Labels[ipamv1alpha1.LabelNetworkType]
		if n.Namespace != g.LiqoNamespace || !slices.Contains([]string{ipamv1alpha1.NetworkTypePod, ipamv1alpha1.NetworkTypeService, ipamv1alpha1.NetworkTypeExternal}, kind) {
			continue
		}
		name := named("Network", n)
		if n.Status.CIDR == "" {
			g.wait("", name, "status.cidr is empty: waiting for the range of %s", n.Spec.CIDR)
			continue
		}
		prefix, err := netip.ParsePrefix(n.Status.CIDR)
		if err != nil || ipam.SpecialPrefix(prefix) != "" {
			g.problem("", name, "status.cidr %q is no IPv4 range that a cluster may have: delete the Network and create it again with a correct spec.cidr", n.Status.CIDR)
			continue
		}
		switch prefix = prefix.Masked(); kind {
		case ipamv1alpha1.NetworkTypePod:
			f.Pods = append(f.Pods, prefix)
		case ipamv1alpha1.NetworkTypeService:
			f.Services = append(f.Services, prefix)
		default:
			if external != "" {
				g.problem("", name, "%s is the external CIDR already: delete one of them", external)
				continue
			}
			f.External, external = prefix, name
		}
	}
	f.Pods, f.Services = sorted(f.Pods), sorted(f.Services)
}

// nodes reads the real nodes.
func (g *gathering) nodes() {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Labels[api.LabelType] == api.TypeVirtualNode {
			continue
		}
		node := Node{Name: n.Name}
		for _, a := range n.Status.Addresses {
			ip, err := netip.ParseAddr(a.Address)
			if err != nil || ipam.Special(ip) != "" || a.Type != corev1.NodeInternalIP && a.Type != corev1.NodeExternalIP {
				continue
			}
			node.Addresses = append(node.Addresses, ip)
			if a.Type == corev1.NodeInternalIP && !node.IP.IsValid() {
				node.IP = ip
			}
		}
		if !node.IP.IsValid() {
			g.wait("", "Node "+n.Name, "status.addresses has no InternalIP that is an IPv4 address: its pods can't be reached from other clusters until it has one")
			continue
		}
		for _, text := range n.Spec.PodCIDRs {
			// If the CNI assigns addresses by itself, this CIDR may be unrelated to the pods' addresses.
			if prefix, err := netip.ParsePrefix(text); err == nil && inside(g.facts.Pods, prefix) {
				node.Pods = append(node.Pods, prefix.Masked())
			}
		}
		node.Addresses = slices.Compact(slices.SortedFunc(slices.Values(node.Addresses), netip.Addr.Compare))
		g.facts.Nodes = append(g.facts.Nodes, node)
	}
	slices.SortFunc(g.facts.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	for i, n := range g.facts.Nodes {
		for _, other := range g.facts.Nodes[:i] {
			if n.IP == other.IP {
				g.problem("", "Node "+n.Name, "status.addresses: InternalIP %s is also the InternalIP of Node %s: give each node its own", n.IP, other.Name)
			}
		}
	}
}

// outOfCIDRPods reads the pods whose address is outside the pod CIDRs of their node, and all pods of such nodes.
func (g *gathering) outOfCIDRPods() {
	running := make([][]netip.Addr, len(g.facts.Nodes))
	astray := make([]bool, len(g.facts.Nodes))
	byName := make(map[string]int, len(g.facts.Nodes))
	for i, n := range g.facts.Nodes {
		byName[n.Name] = i
	}
	for i := range g.Pods {
		pod := &g.Pods[i]
		ip := podIP(pod)
		n, ok := byName[pod.Spec.NodeName]
		if !ok || !ip.IsValid() || !contains(g.facts.Pods, ip) {
			continue
		}
		running[n] = append(running[n], ip)
		if node := &g.facts.Nodes[n]; !contains(node.Pods, ip) {
			astray[n] = true
			g.facts.OutOfCIDRPods = append(g.facts.OutOfCIDRPods, OutOfCIDRPod{IP: ip, Node: node.Name})
		}
	}
	for n := range running {
		if astray[n] {
			slices.SortFunc(running[n], netip.Addr.Compare)
			g.facts.Nodes[n].Running = slices.Compact(running[n])
		}
	}
	slices.SortFunc(g.facts.OutOfCIDRPods, func(a, b OutOfCIDRPod) int { return cmp.Or(a.IP.Compare(b.IP), cmp.Compare(a.Node, b.Node)) })
	g.facts.OutOfCIDRPods = slices.CompactFunc(g.facts.OutOfCIDRPods, func(a, b OutOfCIDRPod) bool { return a.IP == b.IP })
}

// system reads Liqo's own pods: all pods in the namespace of the installation, and the gateways and virtual kubelets in tenant namespaces.
func (g *gathering) system() {
	for i := range g.Pods {
		pod := &g.Pods[i]
		own := pod.Namespace == g.LiqoNamespace || pod.Labels[networkingv1beta1.LabelComponent] == networkingv1beta1.ComponentGateway ||
			pod.Labels[offloadingv1beta1.LabelComponent] == offloadingv1beta1.ComponentVirtualKubelet
		if ip := podIP(pod); own && ip.IsValid() && contains(g.facts.Pods, ip) {
			g.facts.System = append(g.facts.System, ip)
		}
	}
	slices.SortFunc(g.facts.System, netip.Addr.Compare)
	g.facts.System = slices.Compact(g.facts.System)
}

// podIP returns the IPv4 address of a pod in the pod network. It is not valid if the pod has none or has ended.
func podIP(pod *corev1.Pod) netip.Addr {
	if pod.Spec.HostNetwork || api.PodFinished(pod) {
		return netip.Addr{}
	}
	if ip, err := netip.ParseAddr(pod.Status.PodIP); err == nil && ipam.Special(ip) == "" {
		return ip
	}
	for _, p := range pod.Status.PodIPs {
		if ip, err := netip.ParseAddr(p.IP); err == nil && ipam.Special(ip) == "" {
			return ip
		}
	}
	return netip.Addr{}
}

// named returns the kind and the name of an object.
func named(kind string, o metav1.Object) string {
	if o.GetNamespace() == "" {
		return kind + " " + o.GetName()
	}
	return kind + " " + o.GetNamespace() + "/" + o.GetName()
}

// byAge returns objects sorted by precedence, see api.CompareAge.
func byAge[T any, P interface {
	*T
	metav1.Object
}](objects []T) []P {
	all := make([]P, len(objects))
	for i := range objects {
		all[i] = &objects[i]
	}
	slices.SortFunc(all, func(a, b P) int { return api.CompareAge(a, b) })
	return all
}

// clusterOf returns the ID of the peer to which an object belongs: the value of its label, or else its name.
func clusterOf(o metav1.Object) string {
	return cmp.Or(o.GetLabels()[api.LabelRemoteClusterID], o.GetName())
}

// Connects reports whether a Configuration belongs to a peer and is not being deleted.
func Connects(c *networkingv1beta1.Configuration, clusterID string) bool {
	return c.DeletionTimestamp == nil && clusterOf(c) == clusterID
}
