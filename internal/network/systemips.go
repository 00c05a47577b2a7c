package network

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
)

// SystemIP is an address of this cluster that peers always know.
type SystemIP struct {
	// Name of its IP in the namespace of the installation, and the value of label ipam.liqo.io/ip-type.
	Name, Type string
	// Address, IPv4.
	Address string
}

// ServiceIPs are the types of IPs that stand for Services, each the name of its IP too.
func ServiceIPs() []string {
	return []string{ipamv1alpha1.IPTypeAPIServer, ipamv1alpha1.IPTypeAPIServerProxy, ipamv1alpha1.IPTypeAuthentication}
}

// SystemIPs are the addresses of the nodes, and of Services by the type of their IP, by name. What has no address yet, and virtual nodes, are
// left out.
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

// clusterIP is the IPv4 address of a Service, of which there may be none.
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

// StaleSystemIP tells whether an IP was made by the system for an address that there is no more. An address is never changed in place.
func StaleSystemIP(ip *ipamv1alpha1.IP, wanted []SystemIP) bool {
	kind, ok := ip.Labels[ipamv1alpha1.LabelIPType]
	if !ok || (kind != ipamv1alpha1.IPTypeNode && !slices.Contains(ServiceIPs(), kind)) {
		return false
	}
	return !slices.ContainsFunc(wanted, func(w SystemIP) bool {
		return w.Name == ip.Name && w.Type == kind && w.Address == ip.Spec.IP
	})
}
