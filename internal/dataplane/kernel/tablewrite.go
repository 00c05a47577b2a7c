package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
)

const (
	// atOnce is the number of elements in one message. A netlink attribute has at most 64 KiB.
	atOnce = 1000
	// transactionBuffer limits the size of a transaction, in bytes: about 100,000 elements. It is a limit, not an allocation.
	transactionBuffer = 8 << 20
)

// transaction runs fill and sends its changes to nftables, which applies all of them or none.
func (k *Kernel) transaction(fill func(c *nftables.Conn) error) error {
	options := []nftables.ConnOption{nftables.WithSockOptions(func(c *netlink.Conn) error {
		if err := c.SetWriteBuffer(transactionBuffer); err != nil {
			return err
		}
		return c.SetReadBuffer(transactionBuffer)
	})}
	if k.namespace >= 0 {
		options = append(options, nftables.WithNetNSFd(k.namespace))
	}
	c, err := nftables.New(options...)
	if err != nil {
		return err
	}
	if err := fill(c); err != nil {
		return err
	}
	return c.Flush()
}

func family(name string) *nftables.Table {
	return &nftables.Table{Name: name, Family: nftables.TableFamilyIPv4}
}

// deleteTable adds the table first, because the kernel rejects the deletion of a missing table.
func (k *Kernel) deleteTable(t dataplane.Table) error {
	return k.transaction(func(c *nftables.Conn) error {
		c.AddTable(family(t.Name))
		c.DelTable(family(t.Name))
		return nil
	})
}

// setTable replaces the table, if there is one, by the given one in one transaction.
func (k *Kernel) setTable(t dataplane.Table) error {
	t = *dataplane.Canonical(dataplane.State{Table: &t}).Table
	return k.transaction(func(c *nftables.Conn) error {
		table := family(t.Name)
		c.AddTable(table)
		c.DelTable(table)
		c.AddTable(table)
		w := tableWriter{c: c, table: table}
		if err := w.sets(t); err != nil {
			return err
		}
		for _, chain := range t.Chains {
			c.AddChain(w.chain(chain))
		}
		for _, chain := range t.Chains {
			for _, r := range chain.Rules {
				c.AddRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Name: chain.Name, Table: table}, Exprs: encode(r)})
			}
		}
		return nil
	})
}

// tableWriter assigns IDs to the sets of a transaction.
type tableWriter struct {
	c     *nftables.Conn
	table *nftables.Table
	last  uint32
}

func (w *tableWriter) newSet(name string, key nftables.SetDatatype) *nftables.Set {
	w.last++
	return &nftables.Set{Table: w.table, ID: w.last, Name: name, KeyType: key, KeyByteOrder: binaryutil.BigEndian}
}

func (w *tableWriter) sets(t dataplane.Table) error {
	if usesICMPErrors(t) {
		if err := w.c.AddSet(w.newSet(icmpErrors, nftables.TypeICMPType), icmpErrorTypes()); err != nil {
			return fmt.Errorf("adding set %s: %w", icmpErrors, err)
		}
	}
	for _, s := range t.Sets {
		set := w.newSet(s.Name, nftables.TypeIPAddr)
		set.Interval = s.Intervals
		if err := addSet(w.c, set, dataplane.Content{Name: s.Name, Intervals: s.Intervals, Prefixes: s.Elements}); err != nil {
			return err
		}
	}
	for _, m := range t.Maps {
		set := w.newSet(m.Name, nftables.TypeIPAddr)
		set.IsMap, set.DataType = true, nftables.TypeIPAddr
		if err := addSet(w.c, set, dataplane.Content{Name: m.Name, Pairs: m.Elements}); err != nil {
			return err
		}
	}
	return nil
}

func usesICMPErrors(t dataplane.Table) bool {
	for _, c := range t.Chains {
		for _, r := range c.Rules {
			if r.Match.ICMPError {
				return true
			}
		}
	}
	return false
}

// icmpErrorTypes returns the ICMP types destination unreachable, time exceeded and parameter problem (RFC 792).
func icmpErrorTypes() []nftables.SetElement {
	return []nftables.SetElement{{Key: []byte{3}}, {Key: []byte{11}}, {Key: []byte{12}}}
}

func addSet(c *nftables.Conn, set *nftables.Set, content dataplane.Content) error {
	if err := c.AddSet(set, nil); err != nil {
		return fmt.Errorf("adding set %s: %w", set.Name, err)
	}
	return inPieces(elementsOf(content), func(piece []nftables.SetElement) error { return c.SetAddElements(set, piece) })
}

func inPieces(elements []nftables.SetElement, f func([]nftables.SetElement) error) error {
	for len(elements) > 0 {
		n := min(atOnce, len(elements))
		if err := f(elements[:n]); err != nil {
			return err
		}
		elements = elements[n:]
	}
	return nil
}

// elementsOf returns the elements in the kernel's format. An interval takes two elements: its first address, and the first address after
// it, if there is one.
func elementsOf(c dataplane.Content) []nftables.SetElement {
	out := make([]nftables.SetElement, 0, 2*len(c.Prefixes)+len(c.Pairs))
	for _, p := range c.Prefixes {
		out = append(out, nftables.SetElement{Key: p.Addr().AsSlice()})
		if end, ok := firstAfter(p); ok && c.Intervals {
			out = append(out, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
		}
	}
	for k, v := range c.Pairs {
		out = append(out, nftables.SetElement{Key: k.AsSlice(), Val: v.AsSlice()})
	}
	return out
}

// firstAfter returns the first address after a prefix; false if the prefix ends with 255.255.255.255.
func firstAfter(p netip.Prefix) (netip.Addr, bool) {
	a := p.Addr().As4()
	end := uint64(binary.BigEndian.Uint32(a[:])) + 1<<(32-p.Bits())
	binary.BigEndian.PutUint32(a[:], uint32(end))
	return netip.AddrFrom4(a), end < 1<<32
}

func (k *Kernel) changeElements(e dataplane.Elements) error {
	return k.transaction(func(c *nftables.Conn) error {
		set := func(name string) *nftables.Set { return &nftables.Set{Table: family(e.Table), Name: name} }
		for _, content := range e.Delete {
			if err := inPieces(elementsOf(content), func(piece []nftables.SetElement) error { return c.SetDeleteElements(set(content.Name), piece) }); err != nil {
				return err
			}
		}
		for _, content := range e.Add {
			if err := inPieces(elementsOf(content), func(piece []nftables.SetElement) error { return c.SetAddElements(set(content.Name), piece) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *tableWriter) chain(c dataplane.Chain) *nftables.Chain {
	out := &nftables.Chain{Name: c.Name, Table: w.table}
	if c.Hook == dataplane.NoHook {
		return out
	}
	out.Hooknum = nftables.ChainHookRef(nftables.ChainHook(hookNumber(c.Hook)))
	out.Priority = nftables.ChainPriorityRef(nftables.ChainPriority(c.Priority))
	out.Type = nftables.ChainTypeFilter
	if c.NAT {
		out.Type = nftables.ChainTypeNAT
	}
	policy := nftables.ChainPolicyAccept
	if c.Drop {
		policy = nftables.ChainPolicyDrop
	}
	out.Policy = &policy
	return out
}

func hookNumber(h dataplane.Hook) uint32 {
	switch h {
	case dataplane.Prerouting:
		return unix.NF_INET_PRE_ROUTING
	case dataplane.Input:
		return unix.NF_INET_LOCAL_IN
	case dataplane.Forward:
		return unix.NF_INET_FORWARD
	case dataplane.Output:
		return unix.NF_INET_LOCAL_OUT
	}
	return unix.NF_INET_POST_ROUTING
}
