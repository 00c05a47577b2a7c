package offload

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/offload/kinds"
)

// CallsHome tells whether a Pod of a consumer knows where the consumer's API server is.
func CallsHome(pod *corev1.Pod) bool { return slices.ContainsFunc(pod.Spec.HostAliases, leadsHome) }

func leadsHome(a corev1.HostAlias) bool { return slices.Contains(a.Hostnames, kinds.HomeAPIServer) }

// LeadHome gives the host aliases of a Pod that lead to its consumer's API server the address that this has here. The consumer tells it as it is on
// the wire; one that can't be the consumer's is an error.
func LeadHome(pod *corev1.Pod, translate func(netip.Addr) (netip.Addr, error)) error {
	for i := range pod.Spec.HostAliases {
		alias := &pod.Spec.HostAliases[i]
		if !leadsHome(*alias) {
			continue
		}
		address, err := netip.ParseAddr(alias.IP)
		if err != nil {
			return fmt.Errorf("reading the address of the consumer's API server: %w", err)
		}
		if address, err = translate(address); err != nil {
			return fmt.Errorf("translating the address of the consumer's API server: %w", err)
		}
		alias.IP = address.String()
	}
	return nil
}
