package network

import (
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ipam"
)

// maxRanges is how many ranges a peer may name, and maxAddresses how many addresses they may hold together: each range has routes here, and all of
// them take place in the pools that every peer shares.
const (
	maxRanges    = 64
	maxAddresses = 1 << 21
)

// Negotiated tells whether only the peer named what is in an object of the network, the ranges of a Configuration for instance, in a NetworkRequest: no
// administrator of this cluster entered it. The label outlives the owner reference, which goes with the request. Objects of earlier versions have no label.
func Negotiated(o metav1.Object) bool {
	return o.GetLabels()[networkingv1beta1.LabelNegotiated] == api.True || slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.Kind == "NetworkRequest" })
}

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

// CheckFacts tells why the network that a peer reports is refused. Nobody here has looked at it: a range is private, and an endpoint is none that
// means something else on every host.
func CheckFacts(facts *networkingv1beta1.NetworkFacts) error {
	if n := len(facts.CIDR.Pod) + len(facts.CIDR.External); n > maxRanges {
		return fmt.Errorf("it has %d ranges, want at most %d", n, maxRanges)
	}
	size := 0
	for _, text := range append(append([]string(nil), facts.CIDR.Pod...), facts.CIDR.External...) {
		prefix, err := CheckRange(text)
		if err != nil {
			return err
		}
		if size += 1 << (32 - prefix.Bits()); size > maxAddresses {
			return fmt.Errorf("its ranges hold more than %d addresses together with %s: an administrator of this cluster who wants that creates the Configuration (liqoctl create configuration)", maxAddresses, prefix)
		}
	}
	if n := len(facts.PublicKey); n != 0 && n != KeyLength {
		return fmt.Errorf("its key has %d bytes, want %d", n, KeyLength)
	}
	if e := facts.Endpoint; e != nil && (len(e.Addresses) == 0 || len(e.Addresses) > 8) {
		return fmt.Errorf("its gateway has %d addresses, want 1 to 8", len(e.Addresses))
	} else if e != nil {
		for _, text := range e.Addresses {
			if a, err := netip.ParseAddr(text); err == nil && !dialable(a.Unmap()) {
				return fmt.Errorf("its gateway has address %s, which means something else on every host: give one that other clusters reach", a)
			}
		}
	}
	return nil
}

// CheckRange tells why a range that a peer names is not taken from it; nil means that it is private.
func CheckRange(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || !prefix.Addr().Is4() || prefix != prefix.Masked() {
		return prefix, fmt.Errorf("range %q is not an IPv4 range without bits after its prefix", text)
	}
	if !ipam.Private(prefix) {
		return prefix, fmt.Errorf("range %s is not private (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10), and a peer alone can't have packets to other addresses led to it: "+
			"an administrator of this cluster who wants that creates the Configuration (liqoctl create configuration)", prefix)
	}
	return prefix, nil
}

// dialable tells whether an address leads to another host.
func dialable(a netip.Addr) bool {
	if a.Is4() {
		return ipam.Special(a) == ""
	}
	return !a.IsUnspecified() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast()
}
