package dataplane

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// State is everything of ours in one network namespace: what somebody wants there, or what was read there. The order of its lists
// means nothing, except that of the rules in a chain. All addresses are IPv4, but for the endpoints of WireGuard peers.
type State struct {
	Links      []Link
	Addresses  []Address
	Neighbours []Neighbour
	Table      *Table // nil: no table
	WireGuard  []WireGuard
	Routes     []Route
	Rules      []Rule
}

// Kind of a link.
type Kind string

// Kinds of links.
const (
	// VXLAN links are made and removed by whoever applies a State.
	VXLAN Kind = "vxlan"
	// Tunnel links (WireGuard of the kernel, or a TUN link of wireguard-go) belong to the process that runs the tunnel: they are given
	// addresses, MTU, keys and peers, but are never made or removed. What hangs on one that is missing waits: see Missing.
	Tunnel Kind = "wireguard"
)

// Link is a network link. A wanted link is up.
type Link struct {
	Name string
	Kind Kind
	MTU  int // bytes

	// For VXLAN: one that differs in any of these is made anew, and what hangs on it with it.
	VNI   int        // VXLAN network identifier
	Port  uint16     // UDP
	Local netip.Addr // outer source address
	MAC   MAC

	// Read only: no link is wanted with them.
	Down    bool   // administratively down
	Foreign string // what else is not as we make it, in words
}

// Address of a link, with the length of its network.
type Address struct {
	Link   string
	Prefix netip.Prefix // the address itself, not masked
}

// Neighbour is a member of a VXLAN: a permanent neighbour entry IP -> MAC and a permanent forwarding entry MAC -> Underlay.
// Read returns half an entry (zero IP, or zero Underlay) where the other half is missing.
type Neighbour struct {
	Link     string
	IP       netip.Addr // next hop of routes
	MAC      MAC
	Underlay netip.Addr // where the encapsulated packets go
}

// Rule of policy routing: packets that match are routed by Table. The link need not exist.
type Rule struct {
	Priority int
	InLink   string // empty: every packet
	// Source and Destination are masked and not 0.0.0.0/0; not valid: every address. What a host sends itself may have no source yet.
	Source, Destination netip.Prefix
	Table               int

	Foreign string // read only: what else the rule asks for, in words
}

// RouteType says what becomes of packets.
type RouteType string

// Types of routes.
const (
	// Unicast routes hand packets to Via by Link.
	Unicast RouteType = ""
	// Unreachable routes answer with ICMP "host unreachable".
	Unreachable RouteType = "unreachable"
)

// Route is an entry of a routing table. Table and Destination are its identity.
type Route struct {
	Table       int
	Destination netip.Prefix // 0.0.0.0/0: default
	Type        RouteType

	// For Unicast.
	Via    netip.Addr // zero: the destination is on the link itself
	Link   string
	OnLink bool       // Via is reachable by Link although no route says so
	Source netip.Addr // source of packets that start here; zero: the kernel chooses
	MTU    int        // bytes; 0: that of the link

	Foreign string // read only: what else the route says, in words
}

// WireGuard is the device of a Tunnel link.
type WireGuard struct {
	Link       string
	PrivateKey PrivateKey
	ListenPort uint16 // UDP; 0: whatever it is
	Peers      []Peer
}

// Peer of a WireGuard device.
type Peer struct {
	PublicKey  PublicKey
	Endpoint   netip.AddrPort // zero: whatever it is, the peer tells by calling. Read returns the present one
	AllowedIPs []netip.Prefix // no two peers have the same
	Keepalive  time.Duration  // whole seconds; 0: none

	// Read only: never compared.
	Handshake      time.Time // last one; zero: none
	Received, Sent uint64    // bytes
}

// Ownership says what of a network namespace is ours. Everything else is never changed and never read into a State.
type Ownership struct {
	Overlay string // VXLAN link, with all its addresses, permanent neighbours and forwarding entries
	Tunnel  string // Tunnel link, with all its addresses, its device and its peers; empty where there is none
	Tables  []int  // routing tables, with all their routes; and the rules marked with Protocol that lead to them
	Table   string // nftables table of family ip, with all that is in it
}

// Names and numbers that are ours. They are a table in docs/invariants.md.
const (
	OverlayLink  = "liqo.vxlan"
	TunnelLink   = "liqo-tunnel"
	OverlayTable = 18952 // routes of nodes to remote prefixes; in gateways those of packets from the overlay
	TunnelTable  = 18953 // in gateways: routes of packets from the tunnel
	Protocol     = 189   // mark of our routes and rules
	FilterTable  = "liqo"
)

// Ours is the ownership of the programs that make up the fabric.
func Ours() Ownership {
	return Ownership{Overlay: OverlayLink, Tunnel: TunnelLink, Tables: []int{OverlayTable, TunnelTable}, Table: FilterTable}
}

// Kernel is a network namespace: the real one (package kernel) or one in memory (package fake).
type Kernel interface {
	// Read returns all of ours that is there, in canonical form.
	Read(ctx context.Context, own Ownership) (State, error)
	// Apply makes the changes one by one, in this order, and stops at the first that fails: the error names it. Reading, comparing and
	// applying again is right after any failure.
	Apply(ctx context.Context, changes []Change) error
}

// Operation of a Change.
type Operation int

// Operations.
const (
	// Set makes or changes something: afterwards it is as the Change says, whatever it was.
	Set Operation = iota
	// Delete removes something. That it is gone already is no error, save for Elements.
	Delete
)

// Change is one step from a state to another. Exactly one of its pointers is set.
type Change struct {
	Operation Operation

	Link      *Link
	Address   *Address
	Neighbour *Neighbour // either half may be zero: it is left alone
	Table     *Table     // the whole table, in one transaction
	Elements  *Elements
	Device    *Device
	Peer      *DevicePeer
	Route     *Route
	Rule      *Rule
}

// Elements are changes to the sets and maps of a table: one transaction, deletions before additions. It fails as a whole where an element
// to delete is missing or one to add is in the way of another.
type Elements struct {
	Table       string
	Add, Delete []Content
}

// Content is some of the elements of a set (Prefixes) or of a map (Pairs).
type Content struct {
	Name      string
	Intervals bool // as AddressSet has it
	Prefixes  []netip.Prefix
	Pairs     map[netip.Addr]netip.Addr
}

// Device is what a WireGuard device is given besides peers.
type Device struct {
	Link       string
	PrivateKey PrivateKey
	ListenPort uint16 // 0: left as it is
}

// DevicePeer is a peer and the link it belongs to. Setting one leaves its session as it is; deleting and setting it forgets its session
// and its endpoint.
type DevicePeer struct {
	Link string
	Peer Peer
}

// MAC is a hardware address.
type MAC [6]byte

func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}
