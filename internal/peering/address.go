package peering

import (
	"net"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// PublishedAddress returns the URL under which the API servers of a cluster publish themselves in the EndpointSlices of Service default/kubernetes.
// Of several ready endpoints it returns the smallest host:port in string order, so that the order of the endpoints does not change the identities. It
// returns "" when no endpoint is ready.
func PublishedAddress(slices []discoveryv1.EndpointSlice) string {
	first := ""
	for i := range slices {
		for _, port := range slices[i].Ports {
			if port.Port == nil {
				continue
			}
			for _, endpoint := range slices[i].Endpoints {
				if len(endpoint.Addresses) == 0 || (endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready) {
					continue
				}
				host := net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*port.Port)))
				if first == "" || host < first {
					first = host
				}
			}
		}
	}
	if first == "" {
		return ""
	}
	return "https://" + first
}
