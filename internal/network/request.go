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

// maxRanges limits the number of ranges that a peer may name, and maxAddresses the number of addresses that they contain together. Each
// range needs routes in this cluster, and all ranges take space in the pools that the peers share.
const (
	maxRanges    = 64
	maxAddresses = 1 << 21
)

// Negotiated reports whether the content of a network object comes only from a peer's NetworkRequest, for example the ranges of a
// Configuration. No administrator of this cluster entered it. The label stays when the owner reference disappears with the request. Objects
// of earlier versions have only the owner reference.
func Negotiated(o metav1.Object) bool {
	return o.GetLabels()[networkingv1beta1.LabelNegotiated] == api.True || slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.Kind == "NetworkRequest" })
}

// AsServer reports whether this cluster runs the server side of the tunnel, which the peer dials. server and client tell which gateway
// exists already; an existing one decides. Otherwise, the request decides whose consumer, as consumerOf returns it, comes first in order.
// So both clusters decide alike even with requests in both directions. own is this cluster's ID.
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

// cureOfFacts ends the errors about facts that only an administrator can overrule. Both clusters of a request may show it, so it says which one
// is meant.
const cureOfFacts = "if that is wanted, an administrator of the cluster that refuses it creates the Configuration there (liqoctl create configuration)"

// CheckFacts returns an error if this cluster refuses the network facts that a peer reports. No administrator of this cluster reviewed
// them. So all ranges must be private and within the limits. No address of an endpoint may be one that means something else on every host.
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
			return fmt.Errorf("its ranges hold more than %d addresses together with %s: %s", maxAddresses, prefix, cureOfFacts)
		}
	}
	if n := len(facts.PublicKey); n != 0 && n != KeyLength {
		return fmt.Errorf("its key has %d bytes, want %d", n, KeyLength)
	}
	if e := facts.Endpoint; e != nil && (len(e.Addresses) == 0 || len(e.Addresses) > maxDialed) {
		return fmt.Errorf("its gateway has %d addresses, want 1 to %d", len(e.Addresses), maxDialed)
	} else if e != nil {
		for _, text := range e.Addresses {
			if a, ok := LiteralAddress(text); ok && !dialable(a) {
				return fmt.Errorf("its gateway has address %s, which means something else on every host: give one that other clusters reach", a)
			}
		}
	}
	return nil
}

// CheckRange parses a range that a peer names. It returns an error if the range is not a private IPv4 range.
func CheckRange(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || !prefix.Addr().Is4() || prefix != prefix.Masked() {
		return prefix, fmt.Errorf("range %q is not an IPv4 range without bits after its prefix", text)
	}
	if !ipam.Private(prefix) {
		return prefix, fmt.Errorf("range %s is not private (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10), "+
			"and a peer alone can't have packets to other addresses led to it: %s", prefix, cureOfFacts)
	}
	return prefix, nil
}

// dialable reports whether an address leads to another host.
func dialable(a netip.Addr) bool {
	if a.Is4() {
		return ipam.Special(a) == ""
	}
	return !a.IsUnspecified() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast()
}
