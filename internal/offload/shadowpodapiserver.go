package offload

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/offload/kinds"
)

// UsesOriginAPIServer reports whether a consumer's Pod has a host alias for the consumer's API server.
func UsesOriginAPIServer(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.HostAliases, namesOriginAPIServer)
}

func namesOriginAPIServer(a corev1.HostAlias) bool {
	return slices.Contains(a.Hostnames, kinds.OriginAPIServer)
}

// SetOriginAPIServer translates the consumer's API server address in the Pod's host aliases to the address that this cluster sees. The consumer
// reports the wire address. An address that can't belong to the consumer is an error.
func SetOriginAPIServer(pod *corev1.Pod, translate func(netip.Addr) (netip.Addr, error)) error {
	for i := range pod.Spec.HostAliases {
		alias := &pod.Spec.HostAliases[i]
		if !namesOriginAPIServer(*alias) {
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
