package ipam

import (
	"fmt"
	"net/netip"
	"slices"
)

// unusable returns the ranges that no network between clusters may use (RFC 6890): "this" network, loopback, link-local, multicast, and the
// reserved range 240.0.0.0/4. The tunnel itself has link-local addresses. Special covers the same ranges for single addresses.
func unusable() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
		netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("240.0.0.0/4"),
	}
}

// PrivateRanges returns the address ranges for private networks, which the Internet does not route (RFC 1918).
func PrivateRanges() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16")}
}

// Private reports whether this cluster accepts a range that only a peer named: all of it is private, or shared address space (RFC 6598), which
// cloud providers use for pods.
func Private(p netip.Prefix) bool {
	return within(append(PrivateRanges(), netip.MustParsePrefix("100.64.0.0/10")), p)
}

// within reports whether one of the ranges contains all of p.
func within(ranges []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Bits() <= p.Bits() && r.Contains(p.Addr()) })
}

// Special says why an address must not be used between clusters; empty for an address that may be used.
func Special(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return "no address"
	case !a.Is4():
		return "not an IPv4 address: IPv6 is not supported by this version"
	case a.As4()[0] == 0:
		return "an address of the host itself (0.0.0.0/8)"
	case a.IsLoopback():
		return "a loopback address"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	case a.IsMulticast():
		return "a multicast address"
	case a.As4()[0] >= 240:
		return "a reserved address (240.0.0.0/4)"
	}
	return ""
}

// SpecialPrefix says why a range must not be used between clusters; empty for a range that may be used.
func SpecialPrefix(p netip.Prefix) string {
	if !p.Addr().Is4() {
		return Special(p.Addr())
	}
	for _, bad := range unusable() {
		if bad.Overlaps(p) {
			return fmt.Sprintf("a range that overlaps %s (%s)", bad, Special(bad.Addr()))
		}
	}
	return ""
}
