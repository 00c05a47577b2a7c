package network

import (
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/ipam"
)

// Facts are all that the plan of a host depends on besides the host itself: one cluster, its nodes and its peers, as its API server
// tells of them. Every list is sorted, so equal worlds give equal facts. Addresses and prefixes are IPv4.
type Facts struct {
	// Pods are the pod CIDRs of this cluster, External its external CIDR; not valid when it has none yet.
	Pods     []netip.Prefix
	External netip.Prefix
	// Services are the service CIDRs of this cluster. No host is told of them, they only say what an address is.
	Services []netip.Prefix
	// Nodes are the real nodes, by name.
	Nodes []Node
	// Peers are the clusters whose objects are complete, by cluster ID.
	Peers []Peer
	// Exposed are the addresses that peers reach under one of our external CIDR, by Real; one entry each for Real and for External.
	Exposed []Exposed
	// Withheld are the IPs that their label networking.liqo.io/host-unreachable keeps from peers.
	Withheld []Exposed
	// Strays are the pods whose address lies outside the pod CIDRs of their node, by address.
	Strays []Stray
	// Options are the same for the whole cluster.
	Options Options
}

// Options of the network, from the chart.
type Options struct {
	// OverlayPort is the UDP port of the overlay; 0 means DefaultOverlayPort.
	OverlayPort uint16
	// RulePriority is what our rules come right before among the policy routing rules of the nodes; 0 means DefaultRulePriority.
	RulePriority int
	// FullMasquerade lets peers see all traffic of a node, that of its pods included, as coming from the node.
	FullMasquerade bool
	// ClampMSS bounds the segments of TCP connections at gateways to what the tunnel carries.
	ClampMSS bool
}

// Numbers that both ends must know. Names and numbers of what is ours in a kernel are in package dataplane.
const (
	// OverlayVNI is the network identifier of the overlay.
	OverlayVNI = 18952
	// OverlayOverhead is what the overlay takes from the MTU below it: IPv4, UDP, VXLAN and Ethernet headers.
	OverlayOverhead = 50
	// DefaultOverlayPort and DefaultRulePriority stand where nothing else was configured.
	DefaultOverlayPort  = 6091
	DefaultRulePriority = 18952
	// TunnelPort is the UDP port that gateway servers listen on.
	TunnelPort = 51840
	// TunnelOverhead and TunnelOverhead6 are what WireGuard takes from the MTU below it, over IPv4 and over IPv6.
	TunnelOverhead  = 60
	TunnelOverhead6 = 80
	// PingPort answers inside the tunnel whether the far gateway is there; AskPort answers outside it which replica is at work. Both UDP.
	PingPort = 12345
	// PongPort is where pings come from and are answered to. Another container than the one that answers sends them, so that an agent that
	// starts anew does not make the tunnel look dead to the peer.
	PongPort = 12347
	AskPort  = 12346
)

// ServerAddress and ClientAddress are the ends of the tunnel, equal in all gateways: each is alone in its network namespace.
func ServerAddress() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254, 18, 1}), 30)
}

// ClientAddress is the other end; see ServerAddress.
func ClientAddress() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254, 18, 2}), 30)
}

// Node is a real node of this cluster.
type Node struct {
	Name string
	// IP is its InternalIP: its address in the overlay, and where traffic of the node itself comes from.
	IP netip.Addr
	// Addresses are all its addresses, IP among them.
	Addresses []netip.Addr
	// Pods are the pod CIDRs that Kubernetes gave it, as far as they lie in the cluster's.
	Pods []netip.Prefix
	// Running are the addresses of its pods, where some of them lie outside Pods: the CNI gives out addresses by itself then, and Pods may be where
	// other nodes' pods are. Otherwise none. They are complete in the facts of the node's own agent.
	Running []netip.Addr
}

// Role is what the gateway of this cluster is to the other one.
type Role string

// Roles, as Connections have them.
const (
	Server Role = "Server"
	Client Role = "Client"
)

// Peer is another cluster, as seen from this one.
type Peer struct {
	ClusterID string
	// Namespace is the tenant namespace, where its objects are.
	Namespace string
	// Pods and External pair the prefixes as the peer knows them with those under which we see them.
	Pods, External []ipam.Remap
	// Negotiated tells that only the peer named its ranges: see Admitted.
	Negotiated bool
	// Gateway is the name of the GatewayServer or GatewayClient, Role which one it is.
	Gateway string
	Role    Role
	// MTU is the highest that the gateway's spec allows for the tunnel, 0 for no limit. TunnelMTU is the one in use, as its
	// Connection tells; 0 while unknown.
	MTU, TunnelMTU int
	// Port is the UDP port that a server listens on in its pod, or that a client dials.
	Port uint16
	// Endpoints are what clients dial, IP addresses or host names: those of the peer's server, or of ours as far as its status tells.
	Endpoints []string
	// PublicKey is the key of the far gateway, 32 bytes; empty while unknown.
	PublicKey []byte
	// Candidates are the gateway pods of this peer that have an address, by pod name.
	Candidates []Candidate
	// Connection is status.value of the Connection, empty while there is none.
	Connection string
}

// Candidate is a pod of a gateway, one of its replicas.
type Candidate struct {
	Pod  string
	IP   netip.Addr
	Node string
	// Created orders the replicas when nothing else does; unix seconds.
	Created int64
	// Ready tells whether Kubernetes holds the pod for ready.
	Ready bool
}

// Exposed pairs an address with the one of our external CIDR under which peers reach it.
type Exposed struct {
	Real, External netip.Addr
	Kind           Kind
	// Object is namespace/name of the IP object.
	Object string
	// Node is the name of the node, for KindNode and for a host that is a node.
	Node string
}

// Kind is what an exposed address belongs to.
type Kind string

// Kinds of exposed addresses.
const (
	// KindNode is a node of ours: it is answered under this address, and not to be called.
	KindNode Kind = "node"
	// KindPeer is an address of a peer: a pod that we offloaded there, or a host that the peer exposes to us.
	KindPeer Kind = "peer"
	// KindHost is anything else: a service of ours, a host outside the cluster, or a node that somebody made an IP object for.
	KindHost Kind = "host"
)

// Stray is a pod outside the pod CIDRs of its node.
type Stray struct {
	IP   netip.Addr
	Node string
}

// Node returns the node of that name.
func (f *Facts) Node(name string) (Node, bool) {
	i := slices.IndexFunc(f.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return Node{}, false
	}
	return f.Nodes[i], true
}

// Peer returns the peer of that cluster ID.
func (f *Facts) Peer(clusterID string) (Peer, bool) {
	i := slices.IndexFunc(f.Peers, func(p Peer) bool { return p.ClusterID == clusterID })
	if i < 0 {
		return Peer{}, false
	}
	return f.Peers[i], true
}

// Remaps are the pairs of prefixes of the peer, pods first.
func (p *Peer) Remaps() []ipam.Remap { return slices.Concat(p.Pods, p.External) }

// Views are the prefixes under which we see the peer.
func (p *Peer) Views() []netip.Prefix {
	var views []netip.Prefix
	for _, r := range p.Remaps() {
		views = append(views, r.View)
	}
	return views
}
