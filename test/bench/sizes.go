package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/network"
)

// Size is the number of objects in the kernels of a gateway and of a node, for a cluster of some size, according to their plans.
type Size struct {
	Peers int `json:"peers"`
	Nodes int `json:"nodes"`
	Pods  int `json:"pods"`
	// Rules are the rules of nftables and of policy routing. Entries are the elements of sets and maps.
	GatewayRoutes  int `json:"gatewayRoutes"`
	GatewayRules   int `json:"gatewayRules"`
	GatewayEntries int `json:"gatewayEntries"`
	NodeRoutes     int `json:"nodeRoutes"`
	NodeRules      int `json:"nodeRules"`
}

// sizes returns the sizes for several clusters, which differ from each other in one number at a time.
func sizes() []Size {
	var all []Size
	for _, s := range [][3]int{{1, 2, 10}, {1, 2, 500}, {1, 20, 500}, {1, 200, 500}, {1, 200, 20_000}, {10, 20, 500}, {50, 20, 500}} {
		all = append(all, size(s[0], s[1], s[2]))
	}
	return all
}

// size compiles the plans for a cluster whose pods all have addresses in the pod CIDR of their node.
func size(peers, nodes, pods int) Size {
	o := worldOf(peers, nodes, pods)
	facts, problems := network.Gather(o)
	if len(problems) > 0 || len(facts.Peers) != peers {
		panic(fmt.Sprintf("the world of %d peers is not complete: %v", peers, problems)) // a programming error
	}
	active := network.FirstChoice(&facts)
	gateway := network.CompileGateway(&facts, network.Self{
		ClusterID: "peer-0", IP: facts.Peers[0].Candidates[0].IP, Node: "node-0", MTU: 1500,
	}, network.Tunnel{}, active)
	node := network.CompileNode(&facts, network.Host{Name: "node-0", MTU: 1500}, active)
	s := Size{Peers: peers, Nodes: nodes, Pods: pods, GatewayRoutes: len(gateway.Routes), NodeRoutes: len(node.Routes)}
	s.GatewayRules, s.GatewayEntries = entries(&gateway)
	s.NodeRules, _ = entries(&node)
	return s
}

// worldOf returns the objects of a cluster, as its API server would return them.
func worldOf(peers, nodes, pods int) *network.Objects {
	o := &network.Objects{LiqoNamespace: api.Namespace, Options: network.Options{ClampMSS: true}}
	for kind, cidr := range map[string]string{
		ipamv1alpha1.NetworkTypePod: "10.0.0.0/9", ipamv1alpha1.NetworkTypeService: "10.128.0.0/16", ipamv1alpha1.NetworkTypeExternal: "10.200.0.0/16",
	} {
		o.Networks = append(o.Networks, ipamv1alpha1.Network{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: kind, Labels: map[string]string{ipamv1alpha1.LabelNetworkType: kind}},
			Spec:       ipamv1alpha1.NetworkSpec{CIDR: cidr}, Status: ipamv1alpha1.NetworkStatus{CIDR: cidr},
		})
	}
	for i := range nodes {
		name, ip := fmt.Sprintf("node-%d", i), fmt.Sprintf("172.16.%d.%d", i/250, i%250+1)
		o.Nodes = append(o.Nodes, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.NodeSpec{PodCIDRs: []string{fmt.Sprintf("10.0.%d.0/24", i)}},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}},
		})
		o.IPs = append(o.IPs, ipamv1alpha1.IP{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: ipamv1alpha1.IPNodePrefix + name, Labels: map[string]string{ipamv1alpha1.LabelIPType: ipamv1alpha1.IPTypeNode}},
			Spec:       ipamv1alpha1.IPSpec{IP: ip}, Status: ipamv1alpha1.IPStatus{IP: fmt.Sprintf("10.200.%d.%d", i/250, i%250+1)},
		})
	}
	running := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	for i := range pods {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: fmt.Sprintf("pod-%d", i)}, Status: running}
		pod.Spec.NodeName = fmt.Sprintf("node-%d", i%nodes)
		pod.Status.PodIP = fmt.Sprintf("10.0.%d.%d", i%nodes, i/nodes%200+50)
		o.Pods = append(o.Pods, pod)
	}
	for i := range peers {
		id := fmt.Sprintf("peer-%d", i)
		meta := func(name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: api.TenantNamespace(id), Name: name, Labels: map[string]string{api.LabelRemoteClusterID: id}}
		}
		view := &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{
			Pod: []string{fmt.Sprintf("11.%d.0.0/16", 2*i)}, External: []string{fmt.Sprintf("11.%d.0.0/16", 2*i+1)},
		}}
		configuration := networkingv1beta1.Configuration{ObjectMeta: meta(id), Status: networkingv1beta1.ConfigurationStatus{Remote: view}}
		configuration.Spec.Remote.CIDR = networkingv1beta1.CIDRs{Pod: []string{"10.244.0.0/16"}, External: []string{"10.70.0.0/16"}}
		o.Configurations = append(o.Configurations, configuration)
		o.GatewayClients = append(o.GatewayClients, networkingv1beta1.GatewayClient{ObjectMeta: meta(id), Spec: networkingv1beta1.GatewayClientSpec{
			MTU: 1340, Endpoint: networkingv1beta1.Endpoint{Addresses: []string{"192.0.2.10"}, Port: network.TunnelPort},
		}})
		o.Connections = append(o.Connections, networkingv1beta1.Connection{ObjectMeta: meta("gw-" + id), Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected}})
		o.PublicKeys = append(o.PublicKeys, networkingv1beta1.PublicKey{ObjectMeta: meta(id), Spec: networkingv1beta1.PublicKeySpec{PublicKey: make([]byte, 32)}})
		gateway := corev1.Pod{ObjectMeta: meta("gw-" + id + "-0"), Status: running}
		gateway.Labels[networkingv1beta1.LabelComponent], gateway.Labels[networkingv1beta1.LabelGatewayName] = networkingv1beta1.ComponentGateway, id
		gateway.Spec.NodeName, gateway.Status.PodIP = "node-0", fmt.Sprintf("10.0.0.%d", i+1)
		o.Pods = append(o.Pods, gateway)
	}
	return o
}

// entries counts the rules of a plan, and the elements of its sets and maps.
func entries(state *dataplane.State) (rules, elements int) {
	rules = len(state.Rules)
	if state.Table == nil {
		return rules, 0
	}
	for _, chain := range state.Table.Chains {
		rules += len(chain.Rules)
	}
	for _, set := range state.Table.Sets {
		elements += len(set.Elements)
	}
	for _, m := range state.Table.Maps {
		elements += len(m.Elements)
	}
	return rules, elements
}
