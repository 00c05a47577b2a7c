package ipam

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
)

// RangeOf returns the range of a Network.
func RangeOf(n *ipamv1alpha1.Network) (netip.Prefix, bool) {
	text := n.Status.CIDR
	if text == "" && n.Labels[ipamv1alpha1.LabelNetworkNotRemapped] == api.True { // the range is fixed by its spec
		text = n.Spec.CIDR
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix, err == nil
}

// NodeAddresses returns the addresses of a node.
func NodeAddresses(node *corev1.Node) []netip.Prefix {
	var out []netip.Prefix
	for _, address := range node.Status.Addresses {
		if ip, err := netip.ParseAddr(address.Address); err == nil {
			out = append(out, netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
	return out
}
