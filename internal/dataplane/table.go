package dataplane

import "net/netip"

// Table is a table of nftables, family ip.
type Table struct {
	Name   string
	Sets   []AddressSet
	Maps   []AddressMap
	Chains []Chain

	Foreign string // read only: what else is in it or true of it, in words
}

// AddressSet is a named set of addresses.
type AddressSet struct {
	Name string
	// Intervals says that it holds prefixes of any length, none of which covers another. Otherwise it holds single addresses (/32), and finds
	// one among thousands as fast as among ten.
	Intervals bool
	Elements  []netip.Prefix
}

// AddressMap is a named map from addresses to addresses.
type AddressMap struct {
	Name     string
	Elements map[netip.Addr]netip.Addr
}

// Hook of the kernel that a base chain listens at.
type Hook string

// Hooks.
const (
	NoHook      Hook = "" // a chain that others jump to
	Prerouting  Hook = "prerouting"
	Input       Hook = "input"
	Forward     Hook = "forward"
	Output      Hook = "output"
	Postrouting Hook = "postrouting"
)

// Priorities of base chains, as nft names them.
const (
	Raw       = -300
	Mangle    = -150
	Filter    = 0
	SourceNAT = 100
)

// Chain is a list of rules. Only base chains have more than Name and Rules.
type Chain struct {
	Name     string
	Hook     Hook
	NAT      bool // of type nat, which sees the first packet of a connection only; otherwise of type filter
	Priority int  // lower comes first
	Drop     bool // policy: what no rule decides is dropped; otherwise accepted
	Rules    []FilterRule
}

// FilterRule does something with the packets that match: it rewrites, clamps, counts, then decides; all of it optional.
type FilterRule struct {
	Match    Match
	Rewrite  Rewrite
	ClampMSS uint16 // bytes; lowers the maximum segment size that a TCP SYN offers; 0: leaves it
	Counter  bool   // counts the packets that came so far
	Verdict  Verdict
	Chain    string     // for Jump
	Address  netip.Addr // for ToSource

	Packets uint64 // read only, never compared: what Counter says
	Foreign string // read only: what the kernel has here and we never write, in words
}

// Match is a condition; what is zero matches everything.
type Match struct {
	InLink, OutLink       LinkName
	Source, Destination   Selector
	Transport             Transport
	DestinationPort       uint16 // with TCP or UDP
	SYN                   bool   // TCP: opens a connection or answers to that
	ICMPError             bool   // ICMP: destination unreachable, time exceeded or parameter problem: quotes a packet
	QuotedSource          Selector
	QuotedDestination     Selector
	Unasked               bool // of no connection that connection tracking knows: it opens one, or fits none, as an ICMP error about nothing
	DestinationTranslated bool // the connection's destination was translated (a service)
}

// LinkName is a link, or (Not) every other one. Links are known by name: they may come and go.
type LinkName struct {
	Name string
	Not  bool
}

// Selector of addresses: those in Prefix, or those in Set, or (Not) all others.
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

// Field of a packet.
type Field string

// Fields that can be rewritten. Checksums stay right. The quoted ones are those of the packet inside an ICMP error: to be used with
// Match.ICMPError only.
const (
	NoField                Field = ""
	SourceField            Field = "source"
	DestinationField       Field = "destination"
	QuotedSourceField      Field = "quoted source"
	QuotedDestinationField Field = "quoted destination"
)

// Rewrite puts another address into a field, without any connection tracking: of the same host in another prefix (To), or what Map has
// for it. An address that Map does not have is left alone, and the rule is over: what follows in it does not happen.
type Rewrite struct {
	Field Field
	To    netip.Prefix
	Map   string // name of an AddressMap
}

// Verdict is a decision.
type Verdict string

// Verdicts.
const (
	NextRule Verdict = "" // no decision
	Accept   Verdict = "accept"
	Drop     Verdict = "drop"
	Return   Verdict = "return" // go on behind the jump that led here
	Jump     Verdict = "jump"   // to Chain

	// In chains with NAT.
	KeepSource Verdict = "keep source" // the source stays, and no later chain translates it
	ToSource   Verdict = "to source"   // the source becomes Address
	Masquerade Verdict = "masquerade"  // the source becomes the address of the outgoing link
)
