package conformance

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"liqo.io/liqo/internal/dataplane"
)

func (h Host) table(prefixes ...string) dataplane.State {
	set := dataplane.AddressSet{Name: "remotes", Intervals: true}
	for _, p := range prefixes {
		set.Elements = append(set.Elements, netip.MustParsePrefix(p))
	}
	return dataplane.State{Table: &dataplane.Table{
		Name: h.Own.Table,
		Sets: []dataplane.AddressSet{set, {Name: "members"}},
		Maps: []dataplane.AddressMap{{Name: "real2ext"}},
		Chains: []dataplane.Chain{
			{Name: "raw", Hook: dataplane.Prerouting, Priority: dataplane.Raw, Rules: []dataplane.FilterRule{{Verdict: dataplane.Jump, Chain: "out"}}},
			{Name: "out", Rules: []dataplane.FilterRule{{Match: dataplane.Match{Source: dataplane.Selector{Set: "remotes", Not: true}}, Counter: true, Verdict: dataplane.Drop}}},
			{Name: "through", Hook: dataplane.Forward, Drop: true},
		},
	}}
}

func tableAtOnce(t *testing.T, h Host) {
	h.converge(t, h.table("10.71.0.0/16"))
	broken := h.table("10.72.0.0/16").Table
	broken.Chains[0].Rules[0].Chain = "missing"
	h.refuse(t, dataplane.Change{Table: broken})
	broken.Chains[0].Rules[0] = dataplane.FilterRule{Match: dataplane.Match{Source: dataplane.Selector{Set: "missing"}}}
	h.refuse(t, dataplane.Change{Table: broken})
	broken.Chains[0].Rules[0] = dataplane.FilterRule{Rewrite: dataplane.Rewrite{Field: dataplane.SourceField, Map: "missing"}}
	h.refuse(t, dataplane.Change{Table: broken})
	other := h.table("10.72.0.0/16")
	other.Table.Chains = other.Table.Chains[:2]
	other.Table.Chains[1].Rules = append(other.Table.Chains[1].Rules, dataplane.FilterRule{Counter: true})
	h.converge(t, other)
	h.converge(t, dataplane.State{})
}

func elementsAtOnce(t *testing.T, h Host) {
	h.converge(t, h.table("10.71.0.0/16"))
	in := func(name string, prefixes ...string) []dataplane.Content {
		c := dataplane.Content{Name: name, Intervals: name == "remotes"}
		for _, p := range prefixes {
			c.Prefixes = append(c.Prefixes, netip.MustParsePrefix(p))
		}
		return []dataplane.Content{c}
	}
	pair := func(k, v string) []dataplane.Content {
		return []dataplane.Content{{Name: "real2ext", Pairs: map[netip.Addr]netip.Addr{netip.MustParseAddr(k): netip.MustParseAddr(v)}}}
	}
	h.apply(t, dataplane.Change{Elements: &dataplane.Elements{Table: h.Own.Table, Add: pair("10.0.0.1", "10.0.0.2")}})
	for _, e := range []dataplane.Elements{
		{Table: h.Own.Table, Delete: in("members", "10.0.0.1/32"), Add: in("remotes", "10.72.0.0/16")},
		{Table: h.Own.Table, Delete: in("remotes", "10.73.0.0/16"), Add: in("remotes", "10.72.0.0/16")},
		{Table: h.Own.Table, Add: in("remotes", "10.72.0.0/16", "10.71.1.0/24")},
		{Table: h.Own.Table, Add: in("remotes", "10.0.0.0/8")},
		{Table: h.Own.Table, Add: in("missing", "10.70.0.0/15")},
		{Table: "missing", Add: in("remotes", "10.72.0.0/16")},
		{Table: h.Own.Table, Add: append(in("members", "10.0.0.9/32"), pair("10.0.0.1", "10.0.0.3")...)},
		{Table: h.Own.Table, Delete: pair("10.0.0.5", "10.0.0.3"), Add: in("members", "10.0.0.9/32")},
	} {
		h.refuse(t, dataplane.Change{Elements: &e})
	}
	// The elements exist already, so adding them again is no error.
	h.apply(t, dataplane.Change{Elements: &dataplane.Elements{Table: h.Own.Table, Add: append(in("remotes", "10.71.0.0/16"), pair("10.0.0.1", "10.0.0.2")...)}})
	h.apply(t, dataplane.Change{Elements: &dataplane.Elements{Table: h.Own.Table, Delete: pair("10.0.0.1", "10.0.0.2"), Add: pair("10.0.0.1", "10.0.0.3")}})
	want := h.table("10.71.0.0/16")
	want.Table.Maps[0].Elements = map[netip.Addr]netip.Addr{netip.MustParseAddr("10.0.0.1"): netip.MustParseAddr("10.0.0.3")}
	h.same(t, want)
}

func intervals(t *testing.T, h Host) {
	for _, prefixes := range [][]string{
		{"10.71.0.0/24"},
		{"10.71.0.0/16"},
		{"10.71.0.0/17", "10.71.128.0/17"},
		{"10.71.0.0/17", "10.71.128.0/18", "10.71.192.0/18"},
		{"10.71.0.0/18", "10.71.128.0/17"},
		{"0.0.0.0/8", "240.0.0.0/4"},
		{"0.0.0.0/32", "255.255.255.255/32"},
		{"0.0.0.0/1", "128.0.0.0/1"},
		{"255.255.255.254/31"},
		{},
		{"10.0.0.0/32", "10.0.0.1/32", "10.0.0.2/31"},
	} {
		h.converge(t, h.table(prefixes...))
	}
}

// manyElements uses more elements than fit into one netlink message, and then changes a hundred elements per set and map.
func manyElements(t *testing.T, h Host) {
	const all, changed = 5000, 100
	numbered := func(first byte, n int) netip.Addr {
		b := binary.BigEndian.AppendUint32(nil, uint32(first)<<24|uint32(2*n))
		return netip.AddrFrom4([4]byte(b))
	}
	state := func(from, to int) dataplane.State {
		s := h.table()
		s.Table.Maps[0].Elements = map[netip.Addr]netip.Addr{}
		for n := from; n < to; n++ {
			s.Table.Maps[0].Elements[numbered(10, n)] = numbered(11, n)
			s.Table.Sets[0].Elements = append(s.Table.Sets[0].Elements, netip.PrefixFrom(numbered(12, n), 31))
			s.Table.Sets[1].Elements = append(s.Table.Sets[1].Elements, netip.PrefixFrom(numbered(13, n), 32))
		}
		return s
	}
	h.converge(t, state(0, all))
	started := time.Now()
	want := state(changed, all+changed)
	h.apply(t, dataplane.Diff(h.read(t), want, h.Own)...)
	t.Logf("reading %d elements, changing %d: %s", 3*all, 6*changed, time.Since(started).Round(time.Millisecond))
	h.same(t, want)
	h.converge(t, state(0, 0))
}

func everyRule(t *testing.T, h Host) {
	for seed := range uint64(20) {
		s, d := h.table("10.71.0.0/16"), NewDice(seed, h.Own)
		for range 40 {
			s.Table.Chains[1].Rules = append(s.Table.Chains[1].Rules, d.Rule())
		}
		h.converge(t, s)
	}
}
