package network

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

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
// protocol is not UDP, or if an IP address never leads to another host, such as a loopback address.
func OneDialedPort(e networkingv1beta1.Endpoint) (networkingv1beta1.Endpoint, error) {
	port, err := onePort("spec.endpoint.ports", e.Port, e.Ports)
	if err != nil {
		return e, err
	}
	switch {
	case port == 0 || len(e.Addresses) == 0:
		return e, errors.New("spec.endpoint needs addresses and port: copy them from status.endpoint of the peer's GatewayServer")
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

// CheckDialed returns an error if a gateway must not dial an address of this peer: the address has another meaning on every host, or it lies inside
// the tunnel itself. The check is needed because the peer chooses the address, directly or through the DNS entry of its host name.
func (p *Peer) CheckDialed(a netip.Addr) error {
	switch a = a.Unmap(); {
	case !dialable(a):
		return notDialable(a)
	case contains(p.Views(), a):
		return fmt.Errorf("%s is in the range under which cluster %q is seen here (%s), so the tunnel would be routed through itself: "+
			"add it to ipam.reservedSubnets and delete the Network of that range, which Liqo then creates again", a, p.ClusterID, join(p.Views()))
	}
	return nil
}

func notDialable(a netip.Addr) error {
	return fmt.Errorf("%s has another meaning on every host: give an address at which other clusters reach the gateway", a)
}

// CheckMTU returns an error if mtu is not a valid limit for the MTU of a tunnel, in bytes; 0: no limit. name is the field or the flag that the user
// has set.
func CheckMTU(name string, mtu int) error {
	if mtu != 0 && (mtu < 576 || mtu > 65535) {
		return fmt.Errorf("%s is %d: want 576 to 65535, or nothing to have it computed", name, mtu)
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
