package dataplane

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Canonical returns the same state in its unique form: lists sorted, prefixes masked, duplicates removed, and set elements removed that
// another element contains. The result may share lists and maps with s: don't modify them.
func Canonical(s State) State {
	s.Links = sorted(s.Links, compareLinks)
	s.Addresses = sorted(s.Addresses, compareAddresses)
	s.Neighbours = sorted(s.Neighbours, compareNeighbours)
	s.Routes = sorted(changed(s.Routes, func(r Route) Route {
		r.Destination = maskedPrefix(r.Destination)
		return r
	}), compareRoutes)
	s.Rules = sorted(changed(s.Rules, func(r Rule) Rule {
		r.Source, r.Destination = maskedPrefix(r.Source), maskedPrefix(r.Destination)
		return r
	}), compareRules)
	s.WireGuard = slices.Clone(s.WireGuard)
	slices.SortFunc(s.WireGuard, func(a, b WireGuard) int { return strings.Compare(a.Link, b.Link) })
	for i := range s.WireGuard {
		s.WireGuard[i].PrivateKey = clamped(s.WireGuard[i].PrivateKey)
		s.WireGuard[i].Peers = canonicalPeers(s.WireGuard[i].Peers)
	}
	if s.Table != nil {
		table := canonicalTable(*s.Table)
		s.Table = &table
	}
	return s
}

// clamped returns the key as every implementation stores it (RFC 7748, section 5). A zero key stays zero.
func clamped(k PrivateKey) PrivateKey {
	if k == (PrivateKey{}) {
		return k
	}
	k[0] &= 248
	k[31] = k[31]&127 | 64
	return k
}

func canonicalPeers(peers []Peer) []Peer {
	peers = slices.Clone(peers)
	for i := range peers {
		peers[i].AllowedIPs = masked(peers[i].AllowedIPs)
	}
	slices.SortFunc(peers, func(a, b Peer) int { return bytes.Compare(a.PublicKey[:], b.PublicKey[:]) })
	return peers
}

func canonicalTable(t Table) Table {
	t.Sets = slices.Clone(t.Sets)
	for i := range t.Sets {
		t.Sets[i].Elements = uncovered(masked(t.Sets[i].Elements))
	}
	slices.SortFunc(t.Sets, func(a, b AddressSet) int { return strings.Compare(a.Name, b.Name) })
	t.Maps = slices.Clone(t.Maps)
	slices.SortFunc(t.Maps, func(a, b AddressMap) int { return strings.Compare(a.Name, b.Name) })
	t.Chains = slices.Clone(t.Chains)
	slices.SortFunc(t.Chains, func(a, b Chain) int { return strings.Compare(a.Name, b.Name) })
	for i := range t.Chains {
		t.Chains[i].Rules = changed(t.Chains[i].Rules, canonicalRule)
	}
	return t
}

func canonicalRule(r FilterRule) FilterRule {
	r.Rewrite.To = maskedPrefix(r.Rewrite.To)
	m := &r.Match
	switch {
	case m.Transport != AnyTransport:
	case m.SYN:
		m.Transport = TCP
	case m.ICMPError:
		m.Transport = ICMP
	}
	m.Source.Prefix, m.Destination.Prefix = maskedPrefix(m.Source.Prefix), maskedPrefix(m.Destination.Prefix)
	m.QuotedSource.Prefix, m.QuotedDestination.Prefix = maskedPrefix(m.QuotedSource.Prefix), maskedPrefix(m.QuotedDestination.Prefix)
	return r
}

// changed returns the list with f applied to each element. It returns the list itself if f changes no element.
func changed[T comparable](list []T, f func(T) T) []T {
	shared := true
	for i, old := range list {
		if now := f(old); now != old {
			if shared {
				list, shared = slices.Clone(list), false
			}
			list[i] = now
		}
	}
	return list
}

func maskedPrefix(p netip.Prefix) netip.Prefix {
	if !p.IsValid() {
		return p
	}
	return p.Masked()
}

// masked returns the prefixes masked, sorted and without duplicates.
func masked(prefixes []netip.Prefix) []netip.Prefix {
	if isMaskedAndSorted(prefixes) {
		return prefixes
	}
	out := make([]netip.Prefix, len(prefixes))
	for i, p := range prefixes {
		out[i] = p.Masked()
	}
	slices.SortFunc(out, comparePrefixes)
	return slices.Compact(out)
}

func isMaskedAndSorted(prefixes []netip.Prefix) bool {
	for i, p := range prefixes {
		if p != p.Masked() || i > 0 && comparePrefixes(prefixes[i-1], p) >= 0 {
			return false
		}
	}
	return true
}

// uncovered removes each prefix that an earlier prefix of the sorted list contains.
func uncovered(prefixes []netip.Prefix) []netip.Prefix {
	covered := func(i int) bool { return i > 0 && prefixes[i-1].Overlaps(prefixes[i]) }
	for i := range prefixes {
		if !covered(i) {
			continue
		}
		out := slices.Clone(prefixes[:i])
		for _, p := range prefixes[i:] {
			if !out[len(out)-1].Overlaps(p) {
				out = append(out, p)
			}
		}
		return out
	}
	return prefixes
}

// sorted returns the list sorted and without duplicates. It returns the list itself if it already is.
func sorted[T comparable](list []T, compare func(a, b T) int) []T {
	inOrder := true
	for i := 1; i < len(list) && inOrder; i++ {
		inOrder = compare(list[i-1], list[i]) < 0
	}
	if inOrder {
		return list
	}
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	return slices.Compact(list)
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func compareLinks(a, b Link) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(string(a.Kind), string(b.Kind)), cmp.Compare(a.MTU, b.MTU),
		cmp.Compare(a.VNI, b.VNI), cmp.Compare(a.Port, b.Port), a.Local.Compare(b.Local), bytes.Compare(a.MAC[:], b.MAC[:]),
		compareBools(a.Down, b.Down), strings.Compare(a.Foreign, b.Foreign))
}

func compareAddresses(a, b Address) int {
	return cmp.Or(strings.Compare(a.Link, b.Link), comparePrefixes(a.Prefix, b.Prefix))
}

func compareNeighbours(a, b Neighbour) int {
	return cmp.Or(strings.Compare(a.Link, b.Link), a.IP.Compare(b.IP), bytes.Compare(a.MAC[:], b.MAC[:]), a.Underlay.Compare(b.Underlay))
}

func compareRules(a, b Rule) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), strings.Compare(a.InLink, b.InLink), cmp.Compare(a.Table, b.Table),
		comparePrefixes(a.Source, b.Source), comparePrefixes(a.Destination, b.Destination), strings.Compare(a.Foreign, b.Foreign))
}

func compareRoutes(a, b Route) int {
	return cmp.Or(cmp.Compare(a.Table, b.Table), comparePrefixes(a.Destination, b.Destination), strings.Compare(string(a.Type), string(b.Type)),
		strings.Compare(a.Link, b.Link), a.Via.Compare(b.Via), compareBools(a.OnLink, b.OnLink), a.Source.Compare(b.Source),
		cmp.Compare(a.MTU, b.MTU), strings.Compare(a.Foreign, b.Foreign))
}
