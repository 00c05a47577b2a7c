package datapath

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// kubernetes configures a node as CNIs and kube-proxy do. Packets that leave the pod network are masqueraded, packets of the node itself to pods of other nodes
// get its address in the pod network as their source, and Services are translated.
func kubernetes(t *testing.T, n *host, pods netip.Prefix, bridge netip.Addr) {
	t.Helper()
	c := tables(t, n)
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "kubernetes"})
	post := c.AddChain(&nftables.Chain{Name: "post", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
	// Masquerade connections to Services from outside the pod network. They are marked when their destination is translated; see service.
	c.AddRule(&nftables.Rule{Table: table, Chain: post, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(mark)}, &expr.Masq{FullyRandom: true}}})
	c.AddRule(&nftables.Rule{Table: table, Chain: post, Exprs: append(append(in(12, pods, expr.CmpOpEq), in(16, pods, expr.CmpOpNeq)...), &expr.Masq{})})
	link := make([]byte, 16) // the kernel compares names of links padded with zeros
	copy(link, "eth0")
	elsewhere := []expr.Any{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: link}}
	c.AddRule(&nftables.Rule{Table: table, Chain: post, Exprs: slices.Concat(elsewhere, in(12, pods, expr.CmpOpNeq), in(16, pods, expr.CmpOpEq), []expr.Any{
		&expr.Immediate{Register: 1, Data: bridge.AsSlice()},
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1}})})
	c.AddChain(&nftables.Chain{Name: "pre", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityNATDest})
	c.AddChain(&nftables.Chain{Name: "out", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest})
	if err := c.Flush(); err != nil {
		t.Fatalf("%s: %v", n.name, err)
	}
}

// mark is the mark with which kube-proxy requests a masquerade.
const mark = 0x4000

// service makes a node translate an address and port to another one, as kube-proxy does on every node, and mark packets from outside the pod network.
func service(t *testing.T, n *host, pods netip.Prefix, from, to netip.AddrPort) {
	t.Helper()
	c := tables(t, n)
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: "kubernetes"}
	for _, chain := range []string{"pre", "out"} {
		match := append(in(16, netip.PrefixFrom(from.Addr(), 32), expr.CmpOpEq),
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{byte(from.Port() >> 8), byte(from.Port())}})
		c.AddRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Name: chain, Table: table}, Exprs: slices.Concat(match, in(12, pods, expr.CmpOpNeq), []expr.Any{
			&expr.Immediate{Register: 1, Data: binaryutil.NativeEndian.PutUint32(mark)}, &expr.Meta{Key: expr.MetaKeyMARK, Register: 1, SourceRegister: true}})})
		exprs := append(match,
			&expr.Immediate{Register: 1, Data: to.Addr().AsSlice()},
			&expr.Immediate{Register: 2, Data: []byte{byte(to.Port() >> 8), byte(to.Port())}},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegProtoMin: 2})
		c.AddRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Name: chain, Table: table}, Exprs: exprs})
	}
	if err := c.Flush(); err != nil {
		t.Fatalf("%s: %v", n.name, err)
	}
}

func tables(t *testing.T, n *host) *nftables.Conn {
	t.Helper()
	c, err := nftables.New(nftables.WithNetNSFd(int(n.ns)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// in compares the address at an offset of the IPv4 header with a prefix.
func in(offset uint32, p netip.Prefix, op expr.CmpOp) []expr.Any {
	mask := make([]byte, 4)
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Op: op, Register: 1, Data: p.Masked().Addr().AsSlice()},
	}
}
