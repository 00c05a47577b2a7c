package network

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
)

// SystemIP is the address of a node or Service of this cluster that Liqo always exposes to peers by an IP object.
type SystemIP struct {
	// Name is the name of the IP object in the namespace of the installation. Type is the value of its label ipam.liqo.io/ip-type.
	Name, Type string
	// Address is the IPv4 address.
	Address string
}

// ServiceIPs returns the types of the IPs that expose Services. Each type is also the name of its IP.
func ServiceIPs() []string {
	return []string{ipamv1alpha1.IPTypeAPIServer, ipamv1alpha1.IPTypeAPIServerProxy, ipamv1alpha1.IPTypeAuthentication}
}

// SystemIPs returns the addresses of the nodes, and of the Services, given by the type of their IP. The result is sorted by name. Virtual
// nodes and objects without an address are left out.
func SystemIPs(nodes []corev1.Node, services map[ipamv1alpha1.IPType]*corev1.Service) []SystemIP {
	var all []SystemIP
	for i := range nodes {
		node := &nodes[i]
		if node.Labels[api.LabelType] == api.TypeVirtualNode || !node.DeletionTimestamp.IsZero() {
			continue
		}
		if address, ok := nodeAddress(node, corev1.NodeInternalIP); ok {
			all = append(all, SystemIP{Name: ipamv1alpha1.IPNodePrefix + node.Name, Type: ipamv1alpha1.IPTypeNode, Address: address})
		}
	}
	for _, kind := range ServiceIPs() {
		if address, ok := clusterIP(services[kind]); ok {
			all = append(all, SystemIP{Name: kind, Type: kind, Address: address})
		}
	}
	slices.SortFunc(all, func(a, b SystemIP) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// clusterIP returns the IPv4 address of a Service; false if there is none.
func clusterIP(service *corev1.Service) (string, bool) {
	if service == nil {
		return "", false
	}
	for _, address := range append([]string{service.Spec.ClusterIP}, service.Spec.ClusterIPs...) {
		if ip, err := netip.ParseAddr(address); err == nil && ip.Is4() {
			return ip.String(), true
		}
	}
	return "", false
}

// StaleSystemIP reports whether the system created an IP for an address that no longer exists. The address of an IP is never changed in
// place.
func StaleSystemIP(ip *ipamv1alpha1.IP, wanted []SystemIP) bool {
	kind, ok := ip.Labels[ipamv1alpha1.LabelIPType]
	if !ok || (kind != ipamv1alpha1.IPTypeNode && !slices.Contains(ServiceIPs(), kind)) {
		return false
	}
	return !slices.ContainsFunc(wanted, func(w SystemIP) bool {
		return w.Name == ip.Name && w.Type == kind && w.Address == ip.Spec.IP
	})
}
