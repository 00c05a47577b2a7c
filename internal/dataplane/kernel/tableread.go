package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
)

// readTries is the maximum number of attempts to read objects that change during the read.
const readTries = 10

// readTable reads the table with that name; nil if there is none. The result is consistent: the generation of the ruleset is the same
// before and after the read.
func (k *Kernel) readTable(name string) (*dataplane.Table, error) {
	config := &netlink.Config{}
	if k.namespace >= 0 {
		config.NetNS = k.namespace
	}
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, config)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	defer func() { _ = conn.Close() }()
	for range readTries {
		r := tableReader{conn: conn, name: name}
		before := r.generation()
		table := r.read()
		if after := r.generation(); r.err == nil && before != after {
			continue
		}
		if errors.Is(r.err, unix.EINTR) {
			continue
		}
		return table, r.err
	}
	return nil, fmt.Errorf("the ruleset changed %d times while it was read", readTries)
}

// tableReader reads one table. It keeps the first error and does nothing after it.
type tableReader struct {
	conn    *netlink.Conn
	name    string
	foreign []string
	err     error
}

// ask sends a request and returns the bodies of the answers, without the nfnetlink headers.
func (r *tableReader) ask(kind uint16, flags netlink.HeaderFlags, attributes ...netlink.Attribute) [][]byte {
	if r.err != nil {
		return nil
	}
	body, err := netlink.MarshalAttributes(attributes)
	if err != nil {
		r.err = err
		return nil
	}
	answers, err := r.conn.Execute(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind), Flags: netlink.Request | flags},
		Data:   append([]byte{unix.NFPROTO_IPV4, unix.NFNETLINK_V0, 0, 0}, body...),
	})
	if err != nil {
		r.err = err
		return nil
	}
	out := make([][]byte, 0, len(answers))
	for _, a := range answers {
		if len(a.Data) >= 4 {
			out = append(out, a.Data[4:])
		}
	}
	return out
}

func zeroTerminated(s string) []byte { return append([]byte(s), 0) }

func (r *tableReader) generation() uint32 {
	for _, b := range r.ask(unix.NFT_MSG_GETGEN, 0) {
		return number(find(b, unix.NFTA_GEN_ID))
	}
	return 0
}

func (r *tableReader) read() *dataplane.Table {
	head := r.ask(unix.NFT_MSG_GETTABLE, 0, netlink.Attribute{Type: unix.NFTA_TABLE_NAME, Data: zeroTerminated(r.name)})
	if errors.Is(r.err, unix.ENOENT) {
		r.err = nil
		return nil
	}
	if len(head) != 1 {
		return nil
	}
	if flags := number(find(head[0], unix.NFTA_TABLE_FLAGS)); flags != 0 {
		r.note("flags %d", flags)
	}
	t := &dataplane.Table{Name: r.name}
	sets := r.sets(t)
	r.chains(t)
	r.rules(t)
	if use := int(number(find(head[0], unix.NFTA_TABLE_USE))); r.err == nil && use != sets+len(t.Chains) {
		r.note("other objects")
	}
	t.Foreign = strings.Join(r.foreign, ", ")
	return t
}

func (r *tableReader) note(format string, args ...any) {
	r.foreign = append(r.foreign, fmt.Sprintf(format, args...))
}

// sets reads all sets and maps with their elements, and returns their number.
func (r *tableReader) sets(t *dataplane.Table) int {
	all := r.ask(unix.NFT_MSG_GETSET, netlink.Dump, netlink.Attribute{Type: unix.NFTA_SET_TABLE, Data: zeroTerminated(r.name)})
	for _, b := range all {
		name := text(find(b, unix.NFTA_SET_NAME))
		flags := number(find(b, unix.NFTA_SET_FLAGS))
		key, data := number(find(b, unix.NFTA_SET_KEY_TYPE)), number(find(b, unix.NFTA_SET_DATA_TYPE))
		address := nftables.TypeIPAddr.GetNFTMagic()
		switch {
		case number(find(find(b, unix.NFTA_SET_DESC), unix.NFTA_SET_DESC_SIZE)) != 0:
			r.note("set %s has a size", name)
		case name == icmpErrors && flags == 0 && key == nftables.TypeICMPType.GetNFTMagic():
			r.icmpErrors()
		case flags&^unix.NFT_SET_INTERVAL == 0 && key == address:
			s := dataplane.AddressSet{Name: name, Intervals: flags == unix.NFT_SET_INTERVAL}
			r.setElements(&s)
			t.Sets = append(t.Sets, s)
		case flags == unix.NFT_SET_MAP && key == address && data == address:
			m := dataplane.AddressMap{Name: name}
			r.mapElements(&m)
			t.Maps = append(t.Maps, m)
		default:
			r.note("set %s of type %d and flags %d", name, key, flags)
		}
	}
	return len(all)
}

// element is an element of a set. Its key and value are slices of the message.
type element struct {
	key, value []byte
	end        bool
}

// elements reads all elements of a set. It marks elements with a key of another length as foreign.
func (r *tableReader) elements(set string, keyLength int) []element {
	var out []element
	for _, b := range r.ask(unix.NFT_MSG_GETSETELEM, netlink.Dump, netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_TABLE, Data: zeroTerminated(r.name)},
		netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: zeroTerminated(set)}) {
		for a := range attributes(find(b, unix.NFTA_SET_ELEM_LIST_ELEMENTS)) {
			var e element
			for a := range attributes(a.value) {
				switch a.kind {
				case unix.NFTA_SET_ELEM_KEY:
					e.key = find(a.value, unix.NFTA_DATA_VALUE)
				case unix.NFTA_SET_ELEM_DATA:
					e.value = find(a.value, unix.NFTA_DATA_VALUE)
				case unix.NFTA_SET_ELEM_FLAGS:
					e.end = number(a.value)&unix.NFT_SET_ELEM_INTERVAL_END != 0
				}
			}
			if len(e.key) != keyLength {
				r.note("set %s has an element that is no key", set)
				continue
			}
			out = append(out, e)
		}
	}
	return out
}

func (r *tableReader) icmpErrors() {
	var types []byte
	for _, e := range r.elements(icmpErrors, 1) {
		types = append(types, e.key[0])
	}
	slices.Sort(types)
	if string(types) != "\x03\x0b\x0c" {
		r.note("set %s has %v", icmpErrors, types)
	}
}

func (r *tableReader) setElements(s *dataplane.AddressSet) {
	list := r.elements(s.Name, 4)
	s.Elements = make([]netip.Prefix, 0, len(list))
	if !s.Intervals {
		for _, e := range list {
			s.Elements = append(s.Elements, netip.PrefixFrom(netip.AddrFrom4([4]byte(e.key)), 32))
		}
		return
	}
	// At the same address, the end of an interval comes before the start of another.
	slices.SortFunc(list, func(a, b element) int {
		if n := slices.Compare(a.key, b.key); n != 0 || a.end == b.end {
			return n
		}
		if a.end {
			return -1
		}
		return 1
	})
	for i, e := range list {
		if e.end {
			continue
		}
		var end uint64 = 1 << 32
		if i+1 < len(list) {
			end = uint64(number(list[i+1].key))
		}
		p, ok := prefixBetween(number(e.key), end)
		if !ok {
			r.note("set %s has an interval that is no prefix", s.Name)
			continue
		}
		s.Elements = append(s.Elements, p)
	}
}

// prefixBetween returns the prefix that contains exactly the addresses from first to the one before end; false if there is none.
func prefixBetween(first uint32, end uint64) (netip.Prefix, bool) {
	a := netip.AddrFrom4([4]byte{byte(first >> 24), byte(first >> 16), byte(first >> 8), byte(first)})
	for bits := range 33 {
		if p := netip.PrefixFrom(a, bits); uint64(first)+1<<(32-bits) == end {
			return p, p.Masked() == p
		}
	}
	return netip.Prefix{}, false
}

func (r *tableReader) mapElements(m *dataplane.AddressMap) {
	list := r.elements(m.Name, 4)
	m.Elements = make(map[netip.Addr]netip.Addr, len(list))
	for _, e := range list {
		if len(e.value) != 4 {
			r.note("map %s has an element without an address", m.Name)
			continue
		}
		m.Elements[netip.AddrFrom4([4]byte(e.key))] = netip.AddrFrom4([4]byte(e.value))
	}
}

// chains reads the chains of the table. The kernel dumps the chains of all tables of the family.
func (r *tableReader) chains(t *dataplane.Table) {
	for _, b := range r.ask(unix.NFT_MSG_GETCHAIN, netlink.Dump) {
		if text(find(b, unix.NFTA_CHAIN_TABLE)) != r.name {
			continue
		}
		c := dataplane.Chain{Name: text(find(b, unix.NFTA_CHAIN_NAME))}
		if hook := find(b, unix.NFTA_CHAIN_HOOK); hook != nil {
			c.Priority = int(int32(number(find(hook, unix.NFTA_HOOK_PRIORITY))))
			c.Drop = number(find(b, unix.NFTA_CHAIN_POLICY)) == uint32(nftables.ChainPolicyDrop)
			kind := text(find(b, unix.NFTA_CHAIN_TYPE))
			c.NAT = kind == string(nftables.ChainTypeNAT)
			if !c.NAT && kind != string(nftables.ChainTypeFilter) {
				r.note("chain %s of type %s", c.Name, kind)
			}
			c.Hook = hookOf(number(find(hook, unix.NFTA_HOOK_HOOKNUM)))
		}
		t.Chains = append(t.Chains, c)
	}
}

func hookOf(n uint32) dataplane.Hook {
	for _, h := range []dataplane.Hook{dataplane.Prerouting, dataplane.Input, dataplane.Forward, dataplane.Output} {
		if hookNumber(h) == n {
			return h
		}
	}
	return dataplane.Postrouting
}

func (r *tableReader) rules(t *dataplane.Table) {
	for _, b := range r.ask(unix.NFT_MSG_GETRULE, netlink.Dump, netlink.Attribute{Type: unix.NFTA_RULE_TABLE, Data: zeroTerminated(r.name)}) {
		chain := text(find(b, unix.NFTA_RULE_CHAIN))
		exprs, err := parseExpressions(find(b, unix.NFTA_RULE_EXPRESSIONS))
		if err != nil {
			r.err = err
			return
		}
		if i := slices.IndexFunc(t.Chains, func(c dataplane.Chain) bool { return c.Name == chain }); i >= 0 {
			t.Chains[i].Rules = append(t.Chains[i].Rules, decode(exprs))
		}
	}
}
