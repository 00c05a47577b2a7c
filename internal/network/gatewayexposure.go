package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// maxDialed is the maximum number of addresses of an endpoint. A peer tries them one after the other.
const maxDialed = 8

// Exposure is the endpoint at which peers reach the server of a tunnel, or the reason why there is none yet.
type Exposure struct {
	// Endpoint is nil as long as it is unknown. Wait then describes what is missing.
	Endpoint *networkingv1beta1.Endpoint
	Wait     string
	// InPlaceOf describes the load balancer that has no address, if Endpoint is the node port that replaces it; empty otherwise.
	InPlaceOf string
	// Again is the time after which the result changes by itself; 0: never.
	Again time.Duration
}

// ExposureRules are the settings of the installation for the endpoints of its servers.
type ExposureRules struct {
	// Timeout is how long a load balancer may take to get an address. After it, peers dial the node port that Kubernetes gives each Service of that
	// type.
	Timeout time.Duration
	// Addresses are the IP addresses or host names at which peers reach node ports; if empty, those of the nodes.
	Addresses []string
}

// Check returns an error if peers would refuse an endpoint with these addresses.
func (r ExposureRules) Check() error {
	if n := len(r.Addresses); n > maxDialed {
		return fmt.Errorf("it has %d addresses, but peers accept at most %d", n, maxDialed)
	}
	for _, text := range r.Addresses {
		if a, ok := LiteralAddress(text); ok && !dialable(a) {
			return notDialable(a)
		} else if !ok && len(validation.IsDNS1123Subdomain(text)) > 0 {
			return fmt.Errorf("%q is neither an IP address nor a host name", text)
		}
	}
	return nil
}

// ExposureOf returns the endpoint at which clients outside the cluster reach a server. present is the endpoint that was reported last, waited is
// how long the gateway has had none.
func ExposureOf(service *corev1.Service, nodes []corev1.Node, pods []corev1.Pod, present *networkingv1beta1.Endpoint, waited time.Duration, rules ExposureRules) Exposure {
	name := fmt.Sprintf("Service %s/%s", service.Namespace, service.Name)
	if len(service.Spec.Ports) == 0 {
		return Exposure{Wait: "waiting for a port of " + name}
	}
	port := service.Spec.Ports[0]
	at := func(number int32, addresses []string, wait string) Exposure {
		if number == 0 || len(addresses) == 0 {
			return Exposure{Wait: wait}
		}
		return Exposure{Endpoint: &networkingv1beta1.Endpoint{Addresses: addresses, Port: number, Protocol: port.Protocol}}
	}
	ofNodes, timeout := rules.Addresses, rules.Timeout
	if len(ofNodes) == 0 {
		ofNodes = nodeAddresses(nodes, pods)
	}
	switch service.Spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		balancer := fmt.Sprintf("the load balancer of %s, port %d/%s", name, port.Port, port.Protocol)
		exposed := at(port.Port, balancerAddresses(service), fmt.Sprintf("waiting for %s, to get an address: does the cluster of the gateway have load balancers? "+
			"spec.endpoint.serviceType NodePort needs none (liqoctl install --service-type NodePort chooses it for new gateways)", balancer))
		allocated := service.Spec.AllocateLoadBalancerNodePorts
		if exposed.Endpoint != nil || port.NodePort == 0 || allocated != nil && !*allocated {
			return exposed
		}
		if used := present != nil && present.Port == port.NodePort; !used && waited < timeout {
			exposed.Wait += fmt.Sprintf("; without an address after %s, peers dial node port %d", timeout, port.NodePort)
			exposed.Again = max(timeout-waited, time.Second)
			return exposed
		}
		if byNode := at(port.NodePort, ofNodes, ""); byNode.Endpoint != nil {
			byNode.InPlaceOf = balancer
			return byNode
		}
		return exposed
	case corev1.ServiceTypeNodePort:
		return at(port.NodePort, ofNodes, fmt.Sprintf("waiting for the node port of %s, and for nodes with an address", name))
	default:
		var addresses []string
		if service.Spec.ClusterIP != "" && service.Spec.ClusterIP != corev1.ClusterIPNone {
			addresses = []string{service.Spec.ClusterIP}
		}
		return at(port.Port, addresses, "waiting for the ClusterIP of "+name)
	}
}

func balancerAddresses(service *corev1.Service) (addresses []string) {
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if address := cmp.Or(ingress.IP, ingress.Hostname); address != "" {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// byRank sorts the nodes through which peers may reach a node port, the best first: nodes with a ready pod, then nodes with a pod that is not ready,
// then all other nodes.
func byRank(nodes []corev1.Node, pods []corev1.Pod) []corev1.Node {
	rank := func(n *corev1.Node) int {
		switch {
		case slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == n.Name && podReady(&p) }):
			return 0
		case slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == n.Name && p.DeletionTimestamp.IsZero() }):
			return 1
		default:
			return 2
		}
	}
	reached := api.ReachedNodes(nodes)
	slices.SortStableFunc(reached, func(a, b corev1.Node) int { return cmp.Compare(rank(&a), rank(&b)) })
	return reached
}

// nodeAddresses returns at most maxDialed addresses of nodes. External addresses come first, because a peer is usually in another network, where the
// same internal address may belong to another host. Up to half of the addresses are internal ones, for peers in the same network.
func nodeAddresses(nodes []corev1.Node, pods []corev1.Pod) []string {
	var internal, external []string
	for _, node := range byRank(nodes, pods) {
		if address, ok := nodeAddress(&node, corev1.NodeExternalIP); ok {
			external = append(external, address)
		}
		if address, ok := nodeAddress(&node, corev1.NodeInternalIP); ok {
			internal = append(internal, address)
		}
	}
	internal = slices.DeleteFunc(internal, func(address string) bool { return slices.Contains(external, address) })
	first := min(len(external), max(maxDialed/2, maxDialed-len(internal)))
	return slices.Concat(external[:first], internal[:min(len(internal), maxDialed-first)])
}

// nodeAddress returns the first IPv4 address of a type that leads other hosts to the node.
func nodeAddress(node *corev1.Node, kind corev1.NodeAddressType) (string, bool) {
	for _, address := range node.Status.Addresses {
		if address.Type != kind {
			continue
		}
		if ip, err := netip.ParseAddr(address.Address); err == nil && ip.Is4() && dialable(ip) {
			return ip.String(), true
		}
	}
	return "", false
}

func podReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && api.PodReady(pod)
}
