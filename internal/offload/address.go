package offload

import (
	"fmt"
	"slices"
	"strings"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
)

// ExposedAddress is under which address peers reach an endpoint that is no pod of this cluster's network, as the IP objects of its namespace
// for that very address say. It is empty, without an error, while one has none yet, or if the endpoint is a Pod: those on other
// virtual nodes get an IP object by themselves, those in the network of their node are reached by nobody outside.
func ExposedAddress(address, pod string, ips []*ipamv1alpha1.IP) (string, error) {
	// Of several the same one is taken whatever their order.
	slices.SortFunc(ips, func(a, b *ipamv1alpha1.IP) int { return strings.Compare(a.Name, b.Name) })
	for _, ip := range ips {
		if ip.Spec.IP == address && ip.Status.IP != "" {
			return ip.Status.IP, nil
		}
	}
	if pod != "" || len(ips) > 0 {
		return "", nil
	}
	return "", fmt.Errorf("%s is not a pod of this cluster, and no IP object of this namespace exposes it: create one with spec.ip %s", address, address)
}
