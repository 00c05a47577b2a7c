package dataplane

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// State holds all objects of one network namespace that Liqo manages: either the wanted ones or those that Kernel.Read returned. The order
// of the lists has no meaning, except for the rules in a chain. All addresses are IPv4, except the endpoints of WireGuard peers.
type State struct {
	Links      []Link
	Addresses  []Address
	Neighbours []Neighbour
	Table      *Table // nil: no table
	WireGuard  []WireGuard
	Routes     []Route
	Rules      []Rule
}

// Kind is the type of a link.
type Kind string

// The kinds of links.
const (
	// VXLAN links are created and deleted by Kernel.Apply.
	VXLAN Kind = "vxlan"
	// Tunnel links (WireGuard of the kernel, or a TUN link of wireguard-go) belong to the process that runs the tunnel. Diff sets their
	// addresses, MTU, keys and peers, but never creates or deletes them. Diff leaves out objects that need a Tunnel link until the link
	// exists: see Missing.
	Tunnel Kind = "wireguard"
)

// Link is a network link. A wanted link is up.
type Link struct {
	Name string
	Kind Kind
	MTU  int // bytes

	// VXLAN only. A link that differs in any of these is recreated, together with its addresses, neighbours and routes.
	VNI   int        // VXLAN network identifier
	Port  uint16     // UDP
	Local netip.Addr // outer source address
	MAC   MAC

	// Read only: Read sets them, Validate rejects them.
	Down    bool   // administratively down
	Foreign string // settings of the link that Liqo never makes, as text
}

// Address is an IP address of a link, with the prefix length of its network.
type Address struct {
	Link   string
	Prefix netip.Prefix // the address itself, not masked
}

// Neighbour is a member of a VXLAN: a permanent neighbour entry IP -> MAC and a permanent forwarding entry MAC -> Underlay. If only one of
// the two entries exists, Read returns a Neighbour with a zero IP or a zero Underlay.
type Neighbour struct {
	Link     string
	IP       netip.Addr // next hop of routes
	MAC      MAC
	Underlay netip.Addr // destination of the encapsulated packets
}

// Rule is a policy routing rule: packets that match are routed by Table. InLink need not exist.
type Rule struct {
	Priority int
	InLink   string // empty: every packet
	// Source and Destination are masked and at least one bit long; the zero Prefix matches every address. A packet that the host itself
	// sends may not have a source address yet when the kernel evaluates the rule.
	Source, Destination netip.Prefix
	Table               int

	Foreign string // read only: conditions and actions that Liqo never writes, as text
}

// RouteType is the action of a route.
type RouteType string

// The types of routes.
const (
	// Unicast routes send packets through Link to the next hop Via.
	Unicast RouteType = ""
	// Unreachable routes reject packets with the ICMP error "host unreachable".
	Unreachable RouteType = "unreachable"
)

// Route is an entry of a routing table. Table and Destination are its identity.
type Route struct {
	Table       int
	Destination netip.Prefix // 0.0.0.0/0: default
	Type        RouteType

	// Unicast routes only.
	Via    netip.Addr // zero: the destination is on the link itself
	Link   string
	OnLink bool       // Via is reachable through Link even if no route says so
	Source netip.Addr // source address of packets that this host sends; zero: the kernel chooses
	MTU    int        // bytes; 0: the MTU of the link

	Foreign string // read only: attributes that Liqo never writes, as text
}

// WireGuard is the WireGuard device of a Tunnel link.
type WireGuard struct {
	Link       string
	PrivateKey PrivateKey
	ListenPort uint16 // UDP; 0: keep the current port
	Peers      []Peer
}

// Peer is a peer of a WireGuard device.
type Peer struct {
	PublicKey PublicKey
	// Endpoint is the peer's address and UDP port. Zero: keep the current one, which WireGuard learns from the peer's packets. Read returns
	// the current endpoint.
	Endpoint   netip.AddrPort
	AllowedIPs []netip.Prefix // no two peers have the same prefix
	Keepalive  time.Duration  // whole seconds; 0: none

	// Read only: Diff ignores them.
	Handshake      time.Time // time of the last handshake; zero: none
	Received, Sent uint64    // bytes
}

// Ownership lists the objects of a network namespace that Liqo manages. Read never returns any other object, and Diff never changes one.
type Ownership struct {
	Overlay string // VXLAN link, with all its addresses, permanent neighbours and forwarding entries
	Tunnel  string // Tunnel link, with all its addresses, its WireGuard device and its peers; empty: no tunnel
	Tables  []int  // routing tables with all their routes, and the rules marked with Protocol that point to these tables
	Table   string // nftables table of family ip, with all its content
}

// Names and numbers of the objects that Liqo manages. docs/invariants.md lists them.
const (
	OverlayLink  = "liqo.vxlan"
	TunnelLink   = "liqo-tunnel"
	OverlayTable = 18952 // routes of nodes to remote prefixes; in gateways the routes of packets from the overlay
	TunnelTable  = 18953 // in gateways: routes of packets from the tunnel
	Protocol     = 189   // routing protocol number that marks Liqo's routes and rules
	FilterTable  = "liqo"
)

// Ours returns the ownership of the fabric's programs.
func Ours() Ownership {
	return Ownership{Overlay: OverlayLink, Tunnel: TunnelLink, Tables: []int{OverlayTable, TunnelTable}, Table: FilterTable}
}

// Kernel is a network namespace: a real one (package kernel) or one in memory (package fake).
type Kernel interface {
	// Read returns all existing objects that own lists, in canonical form.
	Read(ctx context.Context, own Ownership) (State, error)
	// Apply makes the changes one by one in the given order and stops at the first failure. The error names the failed change. After any
	// failure, the caller can safely read, compare and apply again.
	Apply(ctx context.Context, changes []Change) error
}

// Operation is the kind of a Change.
type Operation int

// The operations.
const (
	// Set creates or changes an object: afterwards the object is as the Change describes it, whatever it was before.
	Set Operation = iota
	// Delete removes an object. Deleting a missing object is no error, except for Elements.
	Delete
)

// Change is one step from one state to another. Exactly one of its pointers is set.
type Change struct {
	Operation Operation

	Link      *Link
	Address   *Address
	Neighbour *Neighbour // a field that is zero stays unchanged
	Table     *Table     // the whole table, in one transaction
	Elements  *Elements
	Device    *Device
	Peer      *DevicePeer
	Route     *Route
	Rule      *Rule
}

// Elements changes the sets and maps of a table in one transaction, with deletions before additions. The transaction fails as a whole if an
// element to delete is missing, or if an element to add conflicts with an existing one.
type Elements struct {
	Table       string
	Add, Delete []Content
}

// Content lists elements of one set (Prefixes) or of one map (Pairs).
type Content struct {
	Name      string
	Intervals bool // same as AddressSet.Intervals
	Prefixes  []netip.Prefix
	Pairs     map[netip.Addr]netip.Addr
}

// Device holds the settings of a WireGuard device other than its peers.
type Device struct {
	Link       string
	PrivateKey PrivateKey
	ListenPort uint16 // 0: keep the current port
}

// DevicePeer is a peer together with the link of its device. Setting a peer keeps its session. Deleting a peer and setting it again drops
// its session and its endpoint.
type DevicePeer struct {
	Link string
	Peer Peer
}

// MAC is a hardware address.
type MAC [6]byte

func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}
