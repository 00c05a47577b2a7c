package kernel

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
)

// icmpErrors is the name of the set of ICMP types 3, 11 and 12. Every table with a Match.ICMPError has it.
const icmpErrors = dataplane.ReservedSet

// register is the register that all expressions use.
const register = 1

// Positions of the fields: base, offset and length in bytes (RFC 791, RFC 792, RFC 9293). The quoted IP header starts 8 bytes into the ICMP
// message.
var (
	sourceAddress      = field{expr.PayloadBaseNetworkHeader, 12, 4}
	destinationAddress = field{expr.PayloadBaseNetworkHeader, 16, 4}
	quotedSource       = field{expr.PayloadBaseTransportHeader, 20, 4}
	quotedDestination  = field{expr.PayloadBaseTransportHeader, 24, 4}
	destinationPort    = field{expr.PayloadBaseTransportHeader, 2, 2}
	tcpFlags           = field{expr.PayloadBaseTransportHeader, 13, 1}
	icmpType           = field{expr.PayloadBaseTransportHeader, 0, 1}
)

const (
	headerChecksum       = 10 // offset in the IP header, in bytes
	quotedHeaderChecksum = 18 // offset of the quoted IP header's checksum in the ICMP message, in bytes

	tcpSYN, tcpRST = 0x02, 0x04

	tcpOptionMSS = 2    // RFC 9293, 3.2
	statusDNAT   = 0x20 // IPS_DST_NAT in the kernel's connection tracking
)

type field struct {
	base        expr.PayloadBase
	offset, len uint32
}

func (f field) load() expr.Any {
	return &expr.Payload{OperationType: expr.PayloadLoad, DestRegister: register, Base: f.base, Offset: f.offset, Len: f.len}
}

// store writes the register into the field and corrects the checksums: of the IP header, and of TCP and UDP, which cover the addresses. In
// a quoted packet it corrects only the checksum of the quoted IP header. The checksum of the ICMP message then stays correct by itself, and
// no receiver can verify the checksum of the quoted TCP or UDP.
func (f field) store() expr.Any {
	e := &expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: register, Base: f.base, Offset: f.offset, Len: f.len,
		CsumType: expr.CsumTypeInet, CsumOffset: headerChecksum, CsumFlags: unix.NFT_PAYLOAD_L4CSUM_PSEUDOHDR}
	if f.base == expr.PayloadBaseTransportHeader {
		e.CsumOffset, e.CsumFlags = quotedHeaderChecksum, 0
	}
	return e
}

func fieldOf(f dataplane.Field) field {
	switch f {
	case dataplane.SourceField:
		return sourceAddress
	case dataplane.DestinationField:
		return destinationAddress
	case dataplane.QuotedSourceField:
		return quotedSource
	}
	return quotedDestination
}

func compare(not bool, data []byte) expr.Any {
	op := expr.CmpOpEq
	if not {
		op = expr.CmpOpNeq
	}
	return &expr.Cmp{Op: op, Register: register, Data: data}
}

func and(mask []byte) expr.Any { return combine(mask, make([]byte, len(mask))) }

func combine(mask, xor []byte) expr.Any {
	return &expr.Bitwise{SourceRegister: register, DestRegister: register, Len: uint32(len(mask)), Mask: mask, Xor: xor}
}

func lookup(set string, not bool) expr.Any {
	return &expr.Lookup{SourceRegister: register, SetName: set, Invert: not}
}

// encode returns the rule as nftables expressions: first the matches, cheap ones first, then rewrite, clamp, counter and verdict. The rule
// must be canonical and valid (see dataplane.Validate).
func encode(r dataplane.FilterRule) []expr.Any {
	out := encodeMatch(r.Match)
	if r.Rewrite.Field != dataplane.NoField {
		f := fieldOf(r.Rewrite.Field)
		out = append(out, f.load())
		if r.Rewrite.Map != "" {
			out = append(out, &expr.Lookup{SourceRegister: register, DestRegister: register, IsDestRegSet: true, SetName: r.Rewrite.Map})
		} else {
			out = append(out, combine(hostMask(r.Rewrite.To.Bits()), r.Rewrite.To.Addr().AsSlice()))
		}
		out = append(out, f.store())
	}
	if r.ClampMSS != 0 {
		out = append(out, &expr.Immediate{Register: register, Data: binaryutil.BigEndian.PutUint16(r.ClampMSS)},
			&expr.Exthdr{SourceRegister: register, Type: tcpOptionMSS, Offset: 2, Len: 2, Op: expr.ExthdrOpTcpopt})
	}
	if r.Counter {
		out = append(out, &expr.Counter{})
	}
	return append(out, encodeVerdict(r)...)
}

func encodeVerdict(r dataplane.FilterRule) []expr.Any {
	switch r.Verdict {
	case dataplane.Accept:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}
	case dataplane.Drop:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}
	case dataplane.Return:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}
	case dataplane.Jump:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: r.Chain}}
	// A translation of the source to itself counts as a translation, so no later chain translates the source.
	case dataplane.KeepSource:
		return []expr.Any{sourceAddress.load(), sourceNAT()}
	case dataplane.ToSource:
		return []expr.Any{&expr.Immediate{Register: register, Data: r.Address.AsSlice()}, sourceNAT()}
	case dataplane.Masquerade:
		return []expr.Any{&expr.Masq{}}
	}
	return nil
}

func sourceNAT() expr.Any {
	return &expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: register, RegAddrMax: register}
}

func encodeMatch(m dataplane.Match) []expr.Any {
	var out []expr.Any
	add := func(e ...expr.Any) { out = append(out, e...) }
	if m.InLink.Name != "" {
		add(&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: register}, compare(m.InLink.Not, linkName(m.InLink.Name)))
	}
	if m.OutLink.Name != "" {
		add(&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: register}, compare(m.OutLink.Not, linkName(m.OutLink.Name)))
	}
	if p := protocolNumber(m.Transport); p != 0 {
		add(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}, compare(false, []byte{p}))
	}
	if m.DestinationPort != 0 {
		add(destinationPort.load(), compare(false, binaryutil.BigEndian.PutUint16(m.DestinationPort)))
	}
	add(encodeSelector(sourceAddress, m.Source)...)
	add(encodeSelector(destinationAddress, m.Destination)...)
	if m.SYN {
		add(tcpFlags.load(), and([]byte{tcpSYN | tcpRST}), compare(false, []byte{tcpSYN}))
	}
	if m.ICMPError {
		add(icmpType.load(), lookup(icmpErrors, false))
	}
	add(encodeSelector(quotedSource, m.QuotedSource)...)
	add(encodeSelector(quotedDestination, m.QuotedDestination)...)
	if m.NewOrInvalid {
		add(connection(expr.CtKeySTATE, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED, false)...)
	}
	if m.DestinationTranslated {
		add(connection(expr.CtKeySTATUS, statusDNAT, true)...)
	}
	return out
}

// connection matches packets for which connection tracking has any of the bits or, without anyOf, none of them. The bits are in the host's
// byte order.
func connection(key expr.CtKey, bits uint32, anyOf bool) []expr.Any {
	return []expr.Any{&expr.Ct{Key: key, Register: register}, and(binary.NativeEndian.AppendUint32(nil, bits)), compare(anyOf, make([]byte, 4))}
}

func encodeSelector(f field, s dataplane.Selector) []expr.Any {
	switch {
	case s.Set != "":
		return []expr.Any{f.load(), lookup(s.Set, s.Not)}
	case !s.Prefix.IsValid():
		return nil
	case s.Prefix.IsSingleIP():
		return []expr.Any{f.load(), compare(s.Not, s.Prefix.Addr().AsSlice())}
	}
	return []expr.Any{f.load(), and(networkMask(s.Prefix.Bits())), compare(s.Not, s.Prefix.Addr().AsSlice())}
}

func protocolNumber(t dataplane.Transport) byte {
	switch t {
	case dataplane.TCP:
		return unix.IPPROTO_TCP
	case dataplane.UDP:
		return unix.IPPROTO_UDP
	case dataplane.ICMP:
		return unix.IPPROTO_ICMP
	}
	return 0
}

// linkName returns the name padded with zeros to the length of a link name in the kernel. Without the padding, a rule would match every link whose name begins
// with this one.
func linkName(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

func networkMask(length int) []byte {
	return binary.BigEndian.AppendUint32(nil, ^uint32(0)<<(32-length))
}

func hostMask(length int) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(1<<(32-length)-1))
}

// prefixOf returns the prefix with a network mask and an address. The prefix is not valid if the address is not IPv4 or the mask not 4
// bytes long.
func prefixOf(mask, address []byte) netip.Prefix {
	a, ok := netip.AddrFromSlice(address)
	if !ok || !a.Is4() || len(mask) != 4 {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, bits.LeadingZeros32(^binary.BigEndian.Uint32(mask)))
}
