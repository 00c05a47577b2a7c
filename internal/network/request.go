package network

import (
	"fmt"
	"net/netip"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// maxRanges is how many ranges a peer may have: each costs addresses and routes here.
const maxRanges = 64

// AsServer decides whether this cluster has the end of the tunnel that the peer dials. What is there already decides first, then who asks: with
// requests both ways, the one of the consumer that comes first in order, so that both clusters decide alike. own is this cluster's ID.
func AsServer(requests []networkingv1beta1.NetworkRequest, consumerOf func(*networkingv1beta1.NetworkRequest) string, own string, server, client bool) bool {
	if server || client {
		return server
	}
	var first *networkingv1beta1.NetworkRequest
	for i := range requests {
		if first == nil || consumerOf(&requests[i]) < consumerOf(first) {
			first = &requests[i]
		}
	}
	if first == nil {
		return false
	}
	consumer := consumerOf(first) == own
	return consumer == (first.Spec.Server == networkingv1beta1.ServerAtConsumer)
}

// CheckFacts tells why what a peer tells of its network is not to be used.
func CheckFacts(facts *networkingv1beta1.NetworkFacts) error {
	if n := len(facts.CIDR.Pod) + len(facts.CIDR.External); n > maxRanges {
		return fmt.Errorf("it has %d ranges, want at most %d", n, maxRanges)
	}
	for _, text := range append(append([]string(nil), facts.CIDR.Pod...), facts.CIDR.External...) {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || !prefix.Addr().Is4() || prefix != prefix.Masked() || prefix.Bits() < 8 {
			return fmt.Errorf("range %q is none of IPv4 without bits after its prefix, of at most 2^24 addresses", text)
		}
	}
	if n := len(facts.PublicKey); n != 0 && n != KeyLength {
		return fmt.Errorf("its key has %d bytes, want %d", n, KeyLength)
	}
	if e := facts.Endpoint; e != nil && (len(e.Addresses) == 0 || len(e.Addresses) > 8) {
		return fmt.Errorf("its gateway has %d addresses, want 1 to 8", len(e.Addresses))
	}
	return nil
}
