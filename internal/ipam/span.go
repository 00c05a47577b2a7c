package ipam

import (
	"cmp"
	"net/netip"
	"slices"
)

// span is a range of IPv4 addresses, both ends included. 64 bits also hold the number after the last IPv4 address.
type span struct{ first, last uint64 }

func spanOf(p netip.Prefix) span {
	first := uint64(number(p.Masked().Addr()))
	return span{first, first + size(p) - 1}
}

// size returns the number of addresses in a range.
func size(p netip.Prefix) uint64 { return 1 << (32 - p.Bits()) }

// blockAt returns the range with a given first address and prefix length.
func blockAt(first uint64, bits int) netip.Prefix {
	return netip.PrefixFrom(fromNumber(uint32(first)), bits) //nolint:gosec // the caller stays inside a range of 32 bits
}

// merged sorts spans and joins those that overlap or touch.
func merged(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.first <= out[n-1].last+1 {
			out[n-1].last = max(out[n-1].last, s.last)
			continue
		}
		out = append(out, s)
	}
	return out
}

// free returns the first aligned range of a given prefix length at or after an address, inside the pool and outside all blocked
// spans. The blocked spans must be sorted and disjoint, as merged returns them.
func free(pool span, from uint64, bits int, blocked []span) (netip.Prefix, bool) {
	length := uint64(1) << (32 - bits)
	aligned := func(at uint64) uint64 { return (at + length - 1) &^ (length - 1) }
	at := aligned(max(from, pool.first))
	// Start with the first span that ends at or after the candidate; earlier spans do not matter.
	next, _ := slices.BinarySearchFunc(blocked, at, func(s span, at uint64) int { return cmp.Compare(s.last, at) })
	for _, s := range blocked[next:] {
		if s.first > at+length-1 {
			break
		}
		at = aligned(s.last + 1)
	}
	if at+length-1 > pool.last {
		return netip.Prefix{}, false
	}
	return blockAt(at, bits), true
}
