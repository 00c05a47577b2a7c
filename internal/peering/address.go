package peering

import (
	"net"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// PublishedAddress is the URL under which the API servers of a cluster announce themselves in the EndpointSlices of Service
// default/kubernetes: the first ready one in order, so that the order in which several of them are listed changes no identity. It is empty
// when none is ready.
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
