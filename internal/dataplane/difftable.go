package dataplane

import (
	"net/netip"
	"slices"
)

// filters compares tables. If the structure differs, the new table replaces the old one in one transaction. Elements are added and deleted
// individually, because there may be thousands. Unwanted elements are deleted only after the routes have changed, unless they conflict with
// new ones.
func (d *differ) filters() (sets, removals []Change) {
	have, want := d.have.Table, d.want.Table
	switch {
	case want == nil && have == nil:
		return nil, nil
	case want == nil:
		return nil, []Change{{Operation: Delete, Table: have}}
	case have == nil || !sameStructure(*have, *want):
		return []Change{{Table: want}}, nil
	}
	now, later := Elements{Table: want.Name}, Elements{Table: want.Name}
	for i := range want.Sets {
		diffSet(have.Sets[i], want.Sets[i], &now, &later)
	}
	for i := range want.Maps {
		diffMap(have.Maps[i], want.Maps[i], &now, &later)
	}
	if len(now.Add)+len(now.Delete) > 0 {
		sets = []Change{{Elements: &now}}
	}
	if len(later.Delete) > 0 {
		removals = []Change{{Elements: &later}}
	}
	return sets, removals
}

// sameStructure compares everything except the elements. Both tables are canonical.
func sameStructure(a, b Table) bool {
	return a.Name == b.Name && a.Foreign == b.Foreign &&
		slices.EqualFunc(a.Sets, b.Sets, func(a, b AddressSet) bool { return a.Name == b.Name && a.Intervals == b.Intervals }) &&
		slices.EqualFunc(a.Maps, b.Maps, func(a, b AddressMap) bool { return a.Name == b.Name }) &&
		slices.EqualFunc(a.Chains, b.Chains, sameChain)
}

func sameChain(a, b Chain) bool {
	return a.Name == b.Name && a.Hook == b.Hook && a.NAT == b.NAT && a.Priority == b.Priority && a.Drop == b.Drop &&
		slices.EqualFunc(a.Rules, b.Rules, func(a, b FilterRule) bool {
			a.Packets, b.Packets = 0, 0
			return a == b
		})
}

// diffSet compares two sorted lists of prefixes. The argument now collects what has to change before the routes: additions, and deletions of prefixes that
// overlap an addition. The argument later collects the other deletions, which follow after the routes have changed.
func diffSet(have, want AddressSet, now, later *Elements) {
	if slices.Equal(have.Elements, want.Elements) {
		return
	}
	add := without(want.Elements, have.Elements)
	gone := without(have.Elements, want.Elements)
	var inTheWay, rest []netip.Prefix
	for _, p := range gone {
		if overlapsAny(add, p) {
			inTheWay = append(inTheWay, p)
		} else {
			rest = append(rest, p)
		}
	}
	appendContent(&now.Add, have, add)
	appendContent(&now.Delete, have, inTheWay)
	appendContent(&later.Delete, have, rest)
}

func appendContent(list *[]Content, of AddressSet, prefixes []netip.Prefix) {
	if len(prefixes) > 0 {
		*list = append(*list, Content{Name: of.Name, Intervals: of.Intervals, Prefixes: prefixes})
	}
}

// without returns the prefixes of a that are not in b. Both lists are sorted.
func without(a, b []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range a {
		for len(b) > 0 && comparePrefixes(b[0], p) < 0 {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != p {
			out = append(out, p)
		}
	}
	return out
}

// overlapsAny reports whether a prefix of the list overlaps p. The list is sorted and its prefixes are disjoint.
func overlapsAny(list []netip.Prefix, p netip.Prefix) bool {
	i, found := slices.BinarySearchFunc(list, p, comparePrefixes)
	return found || i < len(list) && list[i].Overlaps(p) || i > 0 && list[i-1].Overlaps(p)
}

func diffMap(have, want AddressMap, now, later *Elements) {
	add, inTheWay, rest := map[netip.Addr]netip.Addr{}, map[netip.Addr]netip.Addr{}, map[netip.Addr]netip.Addr{}
	for k, v := range want.Elements {
		old, found := have.Elements[k]
		if found && old == v {
			continue
		}
		add[k] = v
		if found {
			inTheWay[k] = old
		}
	}
	for k, v := range have.Elements {
		if _, wanted := want.Elements[k]; !wanted {
			rest[k] = v
		}
	}
	appendPairs(&now.Add, have.Name, add)
	appendPairs(&now.Delete, have.Name, inTheWay)
	appendPairs(&later.Delete, have.Name, rest)
}

func appendPairs(list *[]Content, name string, pairs map[netip.Addr]netip.Addr) {
	if len(pairs) > 0 {
		*list = append(*list, Content{Name: name, Pairs: pairs})
	}
}
