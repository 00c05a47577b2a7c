package fake

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"syscall"

	"liqo.io/liqo/internal/dataplane"
)

func cloneTable(t dataplane.Table) dataplane.Table {
	t = *dataplane.Canonical(dataplane.State{Table: &t}).Table
	for i := range t.Chains {
		t.Chains[i].Rules = slices.Clone(t.Chains[i].Rules)
	}
	for i := range t.Sets {
		t.Sets[i].Elements = slices.Clone(t.Sets[i].Elements)
	}
	for i := range t.Maps {
		t.Maps[i].Elements = maps.Clone(t.Maps[i].Elements)
		if t.Maps[i].Elements == nil {
			t.Maps[i].Elements = map[netip.Addr]netip.Addr{}
		}
	}
	return t
}

func (k *Kernel) setTable(t dataplane.Table) error {
	t = cloneTable(t)
	for _, c := range t.Chains {
		for _, r := range c.Rules {
			if r.Verdict == dataplane.Jump && !slices.ContainsFunc(t.Chains, func(c dataplane.Chain) bool { return c.Name == r.Chain }) {
				return fmt.Errorf("jumping to chain %q: %w", r.Chain, syscall.ENOENT)
			}
			for _, s := range []string{r.Match.Source.Set, r.Match.Destination.Set, r.Match.QuotedSource.Set, r.Match.QuotedDestination.Set} {
				if s != "" && !slices.ContainsFunc(t.Sets, func(o dataplane.AddressSet) bool { return o.Name == s }) {
					return fmt.Errorf("looking in set %q: %w", s, syscall.ENOENT)
				}
			}
			if m := r.Rewrite.Map; m != "" && !slices.ContainsFunc(t.Maps, func(o dataplane.AddressMap) bool { return o.Name == m }) {
				return fmt.Errorf("looking in map %q: %w", m, syscall.ENOENT)
			}
		}
	}
	k.tables[t.Name] = t
	return nil
}

// elements applies all changes of a transaction or none.
func (k *Kernel) elements(e dataplane.Elements) error {
	t, found := k.tables[e.Table]
	if !found {
		return fmt.Errorf("table %q: %w", e.Table, syscall.ENOENT)
	}
	t = cloneTable(t)
	for _, c := range e.Delete {
		if err := change(&t, c, deletePrefix, deletePair); err != nil {
			return err
		}
	}
	for _, c := range e.Add {
		if err := change(&t, c, addPrefix, addPair); err != nil {
			return err
		}
	}
	k.tables[t.Name] = t
	return nil
}

func change(t *dataplane.Table, c dataplane.Content, prefix func(*dataplane.AddressSet, netip.Prefix) error, pair func(in map[netip.Addr]netip.Addr, key, value netip.Addr) error) error {
	i := slices.IndexFunc(t.Sets, func(s dataplane.AddressSet) bool { return s.Name == c.Name })
	j := slices.IndexFunc(t.Maps, func(m dataplane.AddressMap) bool { return m.Name == c.Name })
	if len(c.Prefixes) > 0 && i < 0 || len(c.Pairs) > 0 && j < 0 {
		return fmt.Errorf("set or map %q: %w", c.Name, syscall.ENOENT)
	}
	for _, p := range c.Prefixes {
		if err := prefix(&t.Sets[i], p); err != nil {
			return fmt.Errorf("%s in set %q: %w", p, c.Name, err)
		}
	}
	for key, value := range c.Pairs {
		if err := pair(t.Maps[j].Elements, key, value); err != nil {
			return fmt.Errorf("%s in map %q: %w", key, c.Name, err)
		}
	}
	return nil
}

func deletePrefix(s *dataplane.AddressSet, p netip.Prefix) error {
	i := slices.Index(s.Elements, p)
	if i < 0 {
		return syscall.ENOENT
	}
	s.Elements = slices.Delete(s.Elements, i, i+1)
	return nil
}

func addPrefix(s *dataplane.AddressSet, p netip.Prefix) error {
	if slices.Contains(s.Elements, p) {
		return nil
	}
	if slices.ContainsFunc(s.Elements, p.Overlaps) {
		return syscall.EEXIST
	}
	s.Elements = append(s.Elements, p)
	return nil
}

func deletePair(in map[netip.Addr]netip.Addr, key, _ netip.Addr) error {
	if _, found := in[key]; !found {
		return syscall.ENOENT
	}
	delete(in, key)
	return nil
}

func addPair(in map[netip.Addr]netip.Addr, key, value netip.Addr) error {
	if old, found := in[key]; found && old != value {
		return syscall.EEXIST
	}
	in[key] = value
	return nil
}
