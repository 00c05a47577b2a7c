package dataplane

import "net/netip"

// Table is an nftables table of family ip.
type Table struct {
	Name   string
	Sets   []AddressSet
	Maps   []AddressMap
	Chains []Chain

	Foreign string // read only: content and properties that Liqo never writes, as text
}

// AddressSet is a named set of addresses.
type AddressSet struct {
	Name string
	// Intervals: the set holds prefixes of any length, none of which contains another. Otherwise it holds single addresses (/32), and a
	// lookup among thousands is as fast as among ten.
	Intervals bool
	Elements  []netip.Prefix
}

// AddressMap is a named map from addresses to addresses.
type AddressMap struct {
	Name     string
	Elements map[netip.Addr]netip.Addr
}

// Hook is the netfilter hook that a base chain is attached to.
type Hook string

// The hooks.
const (
	NoHook      Hook = "" // a regular chain, reached only by jumps
	Prerouting  Hook = "prerouting"
	Input       Hook = "input"
	Forward     Hook = "forward"
	Output      Hook = "output"
	Postrouting Hook = "postrouting"
)

// Priorities of base chains, with the values of nft's names.
const (
	Raw       = -300
	Mangle    = -150
	Filter    = 0
	SourceNAT = 100
)

// Chain is a list of rules. Regular chains (those with NoHook) set only Name and Rules.
type Chain struct {
	Name     string
	Hook     Hook
	NAT      bool // type nat, evaluated only for the first packet of a connection; otherwise type filter
	Priority int  // chains with a lower priority are evaluated first
	Drop     bool // policy drop: packets without a verdict are dropped; otherwise policy accept
	Rules    []FilterRule
}

// FilterRule acts on the packets that match: it rewrites an address, clamps the MSS, counts, then gives a verdict. Each action is optional.
type FilterRule struct {
	Match    Match
	Rewrite  Rewrite
	ClampMSS uint16 // bytes; upper limit for the maximum segment size in a TCP SYN; 0: no clamping
	Counter  bool   // counts the packets that reach this point of the rule
	Verdict  Verdict
	Chain    string     // target chain of Jump
	Address  netip.Addr // new source of ToSource

	Packets uint64 // read only, never compared: value of Counter
	Foreign string // read only: expressions that Liqo never writes, as text
}

// Match is a condition. A zero field matches every packet.
type Match struct {
	InLink, OutLink     LinkName
	Source, Destination Selector
	Transport           Transport
	DestinationPort     uint16 // requires TCP or UDP
	SYN                 bool   // TCP: SYN set and RST clear, so a connection request or its answer
	ICMPError           bool   // ICMP: destination unreachable, time exceeded or parameter problem; these quote a packet
	QuotedSource        Selector
	QuotedDestination   Selector
	// NewOrInvalid: for connection tracking, the packet is neither established nor related. Either it opens a connection, or it belongs to
	// none, such as an ICMP error about an unknown packet.
	NewOrInvalid          bool
	DestinationTranslated bool // connection tracking translated the connection's destination (a Service)
}

// LinkName matches a link by name or, with Not, every other link. It uses names because links may be deleted and recreated.
type LinkName struct {
	Name string
	Not  bool
}

// Selector matches the addresses in Prefix or in Set or, with Not, all other addresses.
type Selector struct {
	Prefix netip.Prefix
	Set    string // name of an AddressSet
	Not    bool
}

// Transport is a transport protocol over IPv4.
type Transport string

// Transport protocols.
const (
	AnyTransport Transport = ""
	TCP          Transport = "tcp"
	UDP          Transport = "udp"
	ICMP         Transport = "icmp"
)

// Field is an address field of a packet.
type Field string

// Fields that Rewrite can change. The kernel keeps the checksums correct. The quoted fields belong to the packet inside an ICMP error and
// require Match.ICMPError.
const (
	NoField                Field = ""
	SourceField            Field = "source"
	DestinationField       Field = "destination"
	QuotedSourceField      Field = "quoted source"
	QuotedDestinationField Field = "quoted destination"
)

// Rewrite replaces the address in a field, without connection tracking. With To, it replaces the network part of the address and keeps the
// host part. With Map, it looks up the new address. If Map lacks the address, the packet stays unchanged and the rest of the rule is
// skipped.
type Rewrite struct {
	Field Field
	To    netip.Prefix
	Map   string // name of an AddressMap
}

// Verdict is the decision of a rule.
type Verdict string

// The verdicts.
const (
	NextRule Verdict = "" // no decision
	Accept   Verdict = "accept"
	Drop     Verdict = "drop"
	Return   Verdict = "return" // continue after the jump that led to this chain
	Jump     Verdict = "jump"   // continue in Chain

	// Only in chains with NAT.
	KeepSource Verdict = "keep source" // the source stays, and no later chain translates it
	ToSource   Verdict = "to source"   // the source becomes Address
	Masquerade Verdict = "masquerade"  // the source becomes an address of the outgoing link
)

// ReservedSet is a name that no set may have: drivers store the types of ICMP errors in a set of this name.
const ReservedSet = "icmp_errors"
