package network

import (
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/ipam"
)

// Facts are the input for the plan of a host, apart from the host itself: one cluster, its nodes and its peers, as its API server reports
// them. Every list is sorted, so equal clusters give equal facts. Addresses and prefixes are IPv4.
type Facts struct {
	// Pods are the pod CIDRs of this cluster. External is its external CIDR; not valid if it has none yet.
	Pods     []netip.Prefix
	External netip.Prefix
	// Services are the service CIDRs of this cluster. They serve only to recognize addresses of Services, and no plan contains them.
	Services []netip.Prefix
	// Nodes are the real nodes, sorted by name.
	Nodes []Node
	// Peers are the peer clusters whose objects are complete, sorted by cluster ID.
	Peers []Peer
	// Exposed are the addresses that peers reach under an address of the external CIDR, sorted by Real. No two have the same Real or the
	// same External.
	Exposed []Exposed
	// Unexposed are the addresses that the label networking.liqo.io/host-unreachable of their IP object hides from peers.
	Unexposed []Exposed
	// OutOfCIDRPods are the pods whose address is outside the pod CIDRs of their node, sorted by address.
	OutOfCIDRPods []OutOfCIDRPod
	// System are the addresses of Liqo's own pods in the pod network, sorted. Peers may reply to these pods, but may open connections only to the Services in
	// front of them. Only the facts of a node's own agent have all such addresses on the node.
	System []netip.Addr
	// Options apply to the whole cluster.
	Options Options
}

// Options are the network options of the Helm chart.
type Options struct {
	// OverlayPort is the UDP port of the overlay; 0: DefaultOverlayPort.
	OverlayPort uint16
	// RulePriority minus one is the priority of Liqo's policy routing rules on nodes; 0: DefaultRulePriority.
	RulePriority int
	// FullMasquerade makes all traffic of a node, including that of its pods, reach peers with the node's address as its source.
	FullMasquerade bool
	// ClampMSS makes gateways limit the segments of TCP connections to the size that the tunnel carries.
	ClampMSS bool
}

// Numbers that both ends must know. Package dataplane has the names and numbers of Liqo's objects in the kernel.
const (
	// OverlayVNI is the VXLAN network identifier of the overlay.
	OverlayVNI = 18952
	// OverlayOverhead is the size of the overlay's headers in bytes, which reduces the MTU: IPv4, UDP, VXLAN and Ethernet.
	OverlayOverhead = 50
	// DefaultOverlayPort and DefaultRulePriority apply if nothing else is configured.
	DefaultOverlayPort  = 6091
	DefaultRulePriority = 18952
	// TunnelPort is the UDP port that gateway servers listen on.
	TunnelPort = 51840
	// TunnelOverhead and TunnelOverhead6 are the overhead of WireGuard in bytes, which reduces the MTU: over IPv4 and over IPv6.
	TunnelOverhead  = 60
	TunnelOverhead6 = 80
	// PingPort is the UDP port inside the tunnel on which a gateway answers the pings of the peer. They check whether this gateway is reachable.
	PingPort = 12345
	// PongPort is the source port of pings, so their answers arrive on it. It differs from PingPort because two containers of a gateway use the two ports:
	// the agent sends pings, and another container answers those of the peer. So the peer gets answers also while the agent restarts.
	PongPort = 12347
	// ProbePort is the UDP port outside the tunnel on which each replica of a gateway answers whether it is active.
	ProbePort = 12346
)

// ServerAddress and ClientAddress are the addresses of the two ends of the tunnel. They are the same in all gateways, because each gateway
// has its own network namespace.
func ServerAddress() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254, 18, 1}), 30)
}

// ClientAddress is the address of the client's end; see ServerAddress.
func ClientAddress() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254, 18, 2}), 30)
}

// Node is a real node of this cluster.
type Node struct {
	Name string
	// IP is the InternalIP: the node's address in the overlay, and the source address of its own traffic.
	IP netip.Addr
	// Addresses are all addresses of the node, including IP.
	Addresses []netip.Addr
	// Pods are the pod CIDRs that Kubernetes assigned to the node and that are inside the pod CIDRs of the cluster.
	Pods []netip.Prefix
	// Running lists the addresses of the pods on the node if at least one of them is outside the CIDRs in Pods. The CNI then assigns addresses regardless of
	// these CIDRs, and pods of other nodes may have addresses in them. If all addresses are inside, Running is empty. Only the facts of the node's own agent
	// have the complete list.
	Running []netip.Addr
}

// Role is the role of this cluster's gateway towards the other gateway.
type Role string

// The roles, with the values that Connections have.
const (
	Server Role = "Server"
	Client Role = "Client"
)

// Peer is another cluster, seen from this one.
type Peer struct {
	ClusterID string
	// Namespace is the tenant namespace, which contains the objects of the peer.
	Namespace string
	// Pods and External map the peer's own prefixes to the views, the prefixes under which this cluster sees them.
	Pods, External []ipam.Remap
	// Negotiated means that the ranges come from the peer, and no administrator of this cluster entered them; see Admitted.
	Negotiated bool
	// Gateway is the name of the GatewayServer or GatewayClient. Role is the kind of the gateway: server or client.
	Gateway string
	Role    Role
	// MTU is the upper limit for the MTU of the tunnel, from the spec of the gateway; 0: no limit. TunnelMTU is the MTU in use, from the status of the
	// Connection; 0: unknown. Both are in bytes.
	MTU, TunnelMTU int
	// Port is the UDP port on which a server listens in its pod, or which a client dials.
	Port uint16
	// Endpoints are the IP addresses or host names that the client of the tunnel dials. If this cluster has the client, they are those of the peer's server.
	// If it has the server, they are those in the status of the server, as far as it reports them.
	Endpoints []string
	// PublicKey is the key of the far gateway, 32 bytes; empty: unknown.
	PublicKey []byte
	// Candidates are the gateway pods for this peer that have an address, sorted by pod name.
	Candidates []Candidate
	// Connection is status.value of the Connection; empty if there is none.
	Connection string
}

// Candidate is a pod of a gateway: one of its replicas.
type Candidate struct {
	Pod  string
	IP   netip.Addr
	Node string
	// Created is the creation time of the pod in Unix seconds. It orders replicas that are otherwise equal.
	Created int64
	// Ready reports whether the pod is ready in Kubernetes.
	Ready bool
}

// Exposed maps an address to the address of the external CIDR under which peers reach it.
type Exposed struct {
	Real, External netip.Addr
	Kind           Kind
	// Object is the namespace/name of the IP object.
	Object string
	// Node is the name of the node, for KindNode and for a KindHost that is a node.
	Node string
}

// Kind is the kind of an exposed address.
type Kind string

// The kinds of exposed addresses.
const (
	// KindNode is a node of this cluster. Under this address, peers may reply to the node, but may not open connections to it.
	KindNode Kind = "node"
	// KindPeer is an address of a peer: a pod that this cluster offloaded there, or a host that the peer exposes to this cluster.
	KindPeer Kind = "peer"
	// KindHost is any other address: a Service of this cluster, a host outside the cluster, or a node for which a user created an IP object.
	KindHost Kind = "host"
)

// OutOfCIDRPod is a pod whose address is outside the pod CIDRs of its node.
type OutOfCIDRPod struct {
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

// Remaps returns the mappings of the peer's own prefixes to this cluster's views. The pod CIDRs come first.
func (p *Peer) Remaps() []ipam.Remap { return slices.Concat(p.Pods, p.External) }

// Views returns the prefixes under which this cluster sees the peer.
func (p *Peer) Views() []netip.Prefix {
	var views []netip.Prefix
	for _, r := range p.Remaps() {
		views = append(views, r.View)
	}
	return views
}
