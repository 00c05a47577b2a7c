package network

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// otherNodes is the maximum number of nodes without a pod of the gateway in its endpoint. A peer tries the addresses one after the other.
const otherNodes = 5

// OnePort reduces the endpoint of a server to a single port, in Port and NodePort. It returns an error for several ports, because a gateway
// has one tunnel.
func OnePort(e networkingv1beta1.ServerEndpoint) (networkingv1beta1.ServerEndpoint, error) {
	port, err := onePort("spec.endpoint.ports", e.Port, e.Ports)
	if err != nil {
		return e, err
	}
	if port == 0 {
		return e, errors.New("spec.endpoint.port is missing: give the port of the tunnel, usually 51840")
	}
	nodePort, err := onePort("spec.endpoint.nodePorts", e.NodePort, e.NodePorts)
	if err != nil {
		return e, err
	}
	if e.ServiceType == corev1.ServiceTypeExternalName {
		return e, errors.New("spec.endpoint.serviceType ExternalName leads to no pod: choose ClusterIP, NodePort or LoadBalancer")
	}
	e.Port, e.NodePort, e.Ports, e.NodePorts = port, nodePort, nil, nil
	return e, nil
}

// OneDialedPort reduces the endpoint that a client dials to a single port. It returns an error if port or addresses are missing, if the
// protocol is not UDP, or if an IP address leads to no other host.
func OneDialedPort(e networkingv1beta1.Endpoint) (networkingv1beta1.Endpoint, error) {
	port, err := onePort("spec.endpoint.ports", e.Port, e.Ports)
	if err != nil {
		return e, err
	}
	switch {
	case port == 0 || len(e.Addresses) == 0:
		return e, errors.New("spec.endpoint needs addresses and port: those of status.endpoint of the peer's GatewayServer")
	case e.Protocol != "" && e.Protocol != corev1.ProtocolUDP:
		return e, fmt.Errorf("spec.endpoint.protocol is %s: the tunnel is over UDP", e.Protocol)
	}
	for _, text := range e.Addresses {
		if a, ok := LiteralAddress(text); ok && !dialable(a) {
			return e, fmt.Errorf("spec.endpoint.addresses: %w", notDialable(a))
		}
	}
	e.Port, e.Ports, e.Protocol = port, nil, corev1.ProtocolUDP
	return e, nil
}

// LiteralAddress parses an address of an endpoint that is an IP address. It returns false for a host name.
func LiteralAddress(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(strings.TrimSpace(text))
	return a.Unmap(), err == nil
}

// CheckDialed returns an error if a gateway must not dial an address of this peer: it means something else on every host, or it lies inside
// the tunnel itself. The peer chooses the address, also by what its host name resolves to.
func (p *Peer) CheckDialed(a netip.Addr) error {
	switch a = a.Unmap(); {
	case !dialable(a):
		return notDialable(a)
	case contains(p.Views(), a):
		return fmt.Errorf("%s lies where cluster %q is seen here (%s), so the tunnel would run through itself: "+
			"add it to ipam.reservedSubnets and delete the Network of that range, another one is made", a, p.ClusterID, join(p.Views()))
	}
	return nil
}

func notDialable(a netip.Addr) error {
	return fmt.Errorf("%s means something else on every host: give an address at which other clusters reach the gateway", a)
}

// CheckMTU returns an error if mtu is not a valid limit for the MTU of a tunnel, in bytes; 0: no limit.
func CheckMTU(mtu int) error {
	if mtu != 0 && (mtu < 576 || mtu > 65535) {
		return fmt.Errorf("spec.mtu is %d: want 576 to 65535, or nothing to have it computed", mtu)
	}
	return nil
}

func onePort(field string, port int32, ports []int32) (int32, error) {
	switch {
	case len(ports) > 1:
		return 0, fmt.Errorf("%s names %d ports: a gateway has one tunnel, give one", field, len(ports))
	case len(ports) == 1 && port == 0:
		port = ports[0]
	}
	if port < 0 || port > 65535 {
		return 0, fmt.Errorf("%s: %d is no port", field, port)
	}
	return port, nil
}

// ServiceEndpoint returns the endpoint at which clients outside the cluster reach a server. If it is not known yet, endpoint is nil and
// wait describes what is missing.
func ServiceEndpoint(service *corev1.Service, nodes []corev1.Node, pods []corev1.Pod) (endpoint *networkingv1beta1.Endpoint, wait string) {
	name := fmt.Sprintf("Service %s/%s", service.Namespace, service.Name)
	if len(service.Spec.Ports) == 0 {
		return nil, "waiting for a port of " + name
	}
	port := service.Spec.Ports[0]
	endpoint = &networkingv1beta1.Endpoint{Port: port.Port, Protocol: port.Protocol}
	switch service.Spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			if address := cmp.Or(ingress.IP, ingress.Hostname); address != "" {
				endpoint.Addresses = append(endpoint.Addresses, address)
			}
		}
		wait = fmt.Sprintf("waiting for the load balancer of %s, port %d/%s, to get an address: does this cluster have load balancers? "+
			"spec.endpoint.serviceType NodePort needs none", name, port.Port, port.Protocol)
	case corev1.ServiceTypeNodePort:
		endpoint.Port = port.NodePort
		endpoint.Addresses = nodeAddresses(nodes, pods)
		if port.NodePort == 0 {
			endpoint.Addresses = nil
		}
		wait = fmt.Sprintf("waiting for the node port of %s, and for nodes with an address", name)
	default:
		if service.Spec.ClusterIP != "" && service.Spec.ClusterIP != corev1.ClusterIPNone {
			endpoint.Addresses = []string{service.Spec.ClusterIP}
		}
		wait = "waiting for the ClusterIP of " + name
	}
	if len(endpoint.Addresses) == 0 {
		return nil, wait
	}
	return endpoint, ""
}

// nodeAddresses returns the addresses of the nodes that run the pods, then of at most otherNodes others. It leaves out nodes that are not
// ready, unless no node is ready.
func nodeAddresses(nodes []corev1.Node, pods []corev1.Pod) []string {
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
	sorted := slices.Clone(nodes)
	if ready := slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool { return !nodeReady(&n) }); len(ready) > 0 {
		sorted = ready
	}
	slices.SortFunc(sorted, func(a, b corev1.Node) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.Name, b.Name))
	})
	var addresses []string
	others := 0
	for i := range sorted {
		if rank(&sorted[i]) == 2 {
			if others == otherNodes {
				break
			}
			others++
		}
		for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
			if address, ok := nodeAddress(&sorted[i], kind); ok && !slices.Contains(addresses, address) {
				addresses = append(addresses, address)
			}
		}
	}
	return addresses
}

// nodeAddress returns the first IPv4 address of a type.
func nodeAddress(node *corev1.Node, kind corev1.NodeAddressType) (string, bool) {
	for _, address := range node.Status.Addresses {
		if address.Type != kind {
			continue
		}
		if ip, err := netip.ParseAddr(address.Address); err == nil && ip.Is4() {
			return ip.String(), true
		}
	}
	return "", false
}

func nodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func podReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// ActivePod returns the address and node of the active pod of a gateway. It prefers the pod labelled as active, then the present one, then
// any other; it considers only ready pods and returns nil if there are none.
func ActivePod(pods []corev1.Pod, present *networkingv1beta1.InternalEndpoint) *networkingv1beta1.InternalEndpoint {
	var best *corev1.Pod
	rank := func(p *corev1.Pod) int {
		switch {
		case p.Labels[networkingv1beta1.LabelActive] == "true":
			return 0
		case present != nil && p.Status.PodIP == present.IP:
			return 1
		default:
			return 2
		}
	}
	for i := range pods {
		pod := &pods[i]
		if ip, err := netip.ParseAddr(pod.Status.PodIP); err != nil || !ip.Is4() || !podReady(pod) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(rank(pod), rank(best)), cmp.Compare(pod.Name, best.Name)) < 0 {
			best = pod
		}
	}
	if best == nil {
		return nil
	}
	return &networkingv1beta1.InternalEndpoint{IP: best.Status.PodIP, Node: best.Spec.NodeName}
}

// EndpointText returns an endpoint as text for people: its addresses with port and protocol.
func EndpointText(e *networkingv1beta1.Endpoint) string {
	list := make([]string, 0, len(e.Addresses))
	for _, address := range e.Addresses {
		list = append(list, net.JoinHostPort(address, strconv.Itoa(int(e.Port))))
	}
	return strings.Join(list, ", ") + " (" + string(cmp.Or(e.Protocol, corev1.ProtocolUDP)) + ")"
}
