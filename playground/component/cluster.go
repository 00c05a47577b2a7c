// Package component describes as data what a cluster is made of. From a Cluster value it derives addresses, certificates, files,
// program arguments and manifests. It does no input or output, so golden files can show all of its results.
package component

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
)

// internet is the network that connects all nodes of all clusters. Cluster i owns the /24 with i as its third byte:
// the lower half is for its nodes, the upper half for its load balancers.
var internet = netip.MustParsePrefix("172.30.0.0/16")

const (
	// MaxIndex is the highest cluster index. The /24 of index 0 contains the router.
	MaxIndex = 250
	// MaxNodes is the highest number of nodes of a cluster.
	MaxNodes = 60
	// APIPort is the port of the API server on the control plane node's address.
	APIPort = 6443
	// nodePrefixBits is the prefix length of a node's pod CIDR.
	nodePrefixBits = 24
)

// Internet returns the network that connects all nodes of all clusters.
func Internet() netip.Prefix { return internet }

// Router returns the address of the "internet" bridge. It is every node's default gateway, but it forwards no packets.
func Router() netip.Addr { return internet.Addr().Next() }

// Cluster is the configuration of a cluster. All its addresses, files and program arguments follow from it.
type Cluster struct {
	// Name is a DNS label. The nodes are NAME-1, NAME-2 and so on; NAME-1 is the control plane node.
	Name string `json:"name"`
	// Index is unique among the clusters of a machine, from 1 to MaxIndex. It determines the addresses.
	Index int `json:"index"`
	// Nodes is the number of nodes, including the control plane node.
	Nodes int `json:"nodes"`
	// PodCIDR and ServiceCIDR may be the same in every cluster.
	PodCIDR     netip.Prefix `json:"podCIDR"`
	ServiceCIDR netip.Prefix `json:"serviceCIDR"`
	// ForwardPort is the port on the machine's loopback that forwards to the API server.
	ForwardPort int `json:"forwardPort"`
	// ControlPlaneOnly omits kubelet, containerd, kube-proxy and CoreDNS, so no pod ever runs.
	ControlPlaneOnly bool `json:"controlPlaneOnly,omitempty"`
	// FakeNodes is the number of fake nodes, whose pods become Ready at once without running. It requires ControlPlaneOnly.
	FakeNodes int `json:"fakeNodes,omitempty"`
	// MetricsServer installs metrics-server.
	MetricsServer bool `json:"metricsServer,omitempty"`
	// CNI selects how pods are connected to their node: PointToPoint or Bridge. Empty means PointToPoint.
	CNI string `json:"cni,omitempty"`
	// Audit makes the API server log every write request, without bodies, to audit.log in the node's log folder.
	Audit bool `json:"audit,omitempty"`
	// NoLoadBalancers leaves Services of type LoadBalancer without an address, as in a cluster without a load balancer controller.
	NoLoadBalancers bool `json:"noLoadBalancers,omitempty"`
	// NoClientSigner leaves certificate requests of users approved and unsigned, as EKS does.
	NoClientSigner bool `json:"noClientSigner,omitempty"`
	// PodSecurity is the Pod Security level of namespaces without a level of their own, except kube-system. Empty means Kubernetes' default.
	PodSecurity string `json:"podSecurity,omitempty"`
	// APIServerName is one more DNS name or address in the certificate of the API server, for clients that reach it through another network.
	APIServerName string `json:"apiServerName,omitempty"`
}

// The values of Cluster.CNI. Tests need both: through a veth pair, large tunnel packets pass unsegmented. Through a bridge, the kernel
// segments them first, because a bridge supports no offloads for encapsulated packets.
const (
	// PointToPoint connects each pod with a veth pair and a route of its own, as Calico and kind do.
	PointToPoint = "ptp"
	// Bridge connects all pods of a node to one bridge, as Flannel and k3s do.
	Bridge = "bridge"
)

// Node is one node of a cluster.
type Node struct {
	Name    string     `json:"name"`
	Address netip.Addr `json:"address"`
	// PodCIDR is this node's part of the cluster's pod CIDR. It is the zero Prefix in a cluster that runs no pods.
	PodCIDR netip.Prefix `json:"podCIDR"`
	// MAC is the MAC address of eth0. A restarted node keeps it, because its neighbors may have it in their ARP caches.
	MAC string `json:"mac"`
	// Cable is the interface name of the end of the node's veth pair that is in the "internet".
	Cable        string `json:"cable"`
	ControlPlane bool   `json:"controlPlane"`
}

var nameForm = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$`)

// CheckName returns an error if name is not a valid cluster name. Names become folder names.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("name %q: want at most 30 lower-case letters, digits and hyphens, a letter first", name)
	}
	return nil
}

// Lacks returns the options in which this cluster does not satisfy want, each with both values. Extra auditing or an extra
// metrics-server do not count as a difference.
func (c Cluster) Lacks(want Cluster) []string {
	var lacks []string
	differs := func(differ bool, format string, args ...any) {
		if differ {
			lacks = append(lacks, fmt.Sprintf(format, args...))
		}
	}
	cni := func(c Cluster) string {
		if c.CNI == "" {
			return PointToPoint
		}
		return c.CNI
	}
	differs(c.Nodes != want.Nodes, "--nodes %d, not %d", c.Nodes, want.Nodes)
	differs(c.PodCIDR != want.PodCIDR, "--pod-cidr %s, not %s", c.PodCIDR, want.PodCIDR)
	differs(c.ServiceCIDR != want.ServiceCIDR, "--service-cidr %s, not %s", c.ServiceCIDR, want.ServiceCIDR)
	differs(cni(c) != cni(want), "--cni %s, not %s", cni(c), cni(want))
	differs(c.ControlPlaneOnly != want.ControlPlaneOnly, "--control-plane-only=%t, not %t", c.ControlPlaneOnly, want.ControlPlaneOnly)
	differs(c.FakeNodes != want.FakeNodes, "--fake-nodes %d, not %d", c.FakeNodes, want.FakeNodes)
	differs(c.PodSecurity != want.PodSecurity, "--pod-security %q, not %q", c.PodSecurity, want.PodSecurity)
	differs(want.APIServerName != "" && c.APIServerName != want.APIServerName, "--api-server-name %q, not %q", c.APIServerName, want.APIServerName)
	differs(c.NoLoadBalancers != want.NoLoadBalancers, "--no-load-balancers=%t, not %t", c.NoLoadBalancers, want.NoLoadBalancers)
	differs(c.NoClientSigner != want.NoClientSigner, "--no-client-signer=%t, not %t", c.NoClientSigner, want.NoClientSigner)
	differs(want.MetricsServer && !c.MetricsServer, "no --metrics-server")
	differs(want.Audit && !c.Audit, "no --audit")
	return lacks
}

// Validate returns all errors in the configuration, joined, or nil.
func (c Cluster) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := CheckName(c.Name); err != nil {
		errs = append(errs, err)
	}
	if c.Index < 1 || c.Index > MaxIndex {
		wrong("index %d: want 1 to %d", c.Index, MaxIndex)
	}
	if c.Nodes < 1 || c.Nodes > MaxNodes {
		wrong("%d nodes: want 1 to %d", c.Nodes, MaxNodes)
	}
	for what, p := range map[string]netip.Prefix{"pod": c.PodCIDR, "service": c.ServiceCIDR} {
		switch {
		case !p.IsValid() || !p.Addr().Is4() || p.Masked() != p:
			wrong("%s CIDR %v: want an IPv4 network such as 10.0.0.0/16", what, p)
		case p.Overlaps(internet):
			wrong("%s CIDR %v: overlaps %v, where the nodes are", what, p, internet)
		}
	}
	if c.PodCIDR.IsValid() && c.PodCIDR.Overlaps(c.ServiceCIDR) {
		wrong("pod CIDR %v and service CIDR %v overlap", c.PodCIDR, c.ServiceCIDR)
	}
	if c.PodCIDR.Bits() > nodePrefixBits || c.Nodes > 1<<(nodePrefixBits-c.PodCIDR.Bits()) {
		wrong("pod CIDR %v: too small for a /%d on each of %d nodes", c.PodCIDR, nodePrefixBits, c.Nodes)
	}
	if c.ServiceCIDR.Bits() > 24 || c.ServiceCIDR.Bits() < 12 {
		wrong("service CIDR %v: want a length from /12 to /24", c.ServiceCIDR)
	}
	if c.CNI != "" && c.CNI != PointToPoint && c.CNI != Bridge {
		wrong("CNI %q: want %s or %s", c.CNI, PointToPoint, Bridge)
	}
	if c.PodSecurity != "" && c.PodSecurity != "baseline" && c.PodSecurity != "restricted" {
		wrong("Pod Security %q: want baseline or restricted", c.PodSecurity)
	}
	if c.ControlPlaneOnly && c.Nodes > 1 {
		wrong("a cluster with only a control plane has one node, not %d", c.Nodes)
	}
	if c.ControlPlaneOnly && c.MetricsServer {
		wrong("metrics-server is a pod, and a cluster with only a control plane runs none")
	}
	if c.FakeNodes < 0 || c.FakeNodes > 0 && !c.ControlPlaneOnly {
		wrong("%d fake nodes: they need a cluster with only a control plane", c.FakeNodes)
	}
	return errors.Join(errs...)
}

// List returns the cluster's nodes. The control plane node is the first.
func (c Cluster) List() []Node {
	nodes := make([]Node, c.Nodes)
	for i := range nodes {
		nodes[i] = Node{
			Name:         fmt.Sprintf("%s-%d", c.Name, i+1),
			Address:      c.address(byte(i + 1)),
			MAC:          hardware(c.address(byte(i + 1))),
			Cable:        fmt.Sprintf("c%dn%d", c.Index, i+1),
			ControlPlane: i == 0,
		}
		if !c.ControlPlaneOnly {
			nodes[i].PodCIDR = nth(c.PodCIDR, i, nodePrefixBits)
		}
	}
	return nodes
}

// ControlPlane returns the node that runs the API server.
func (c Cluster) ControlPlane() Node { return c.List()[0] }

// LoadBalancers returns the address range for Services of type LoadBalancer. It is reachable from all clusters.
func (c Cluster) LoadBalancers() netip.Prefix {
	return netip.PrefixFrom(c.address(128), 25)
}

// DNS returns the cluster IP of the DNS Service.
func (c Cluster) DNS() netip.Addr { return nth(c.ServiceCIDR, 10, 32).Addr() }

// API returns the cluster IP of the Service default/kubernetes.
func (c Cluster) API() netip.Addr { return nth(c.ServiceCIDR, 1, 32).Addr() }

// Server returns the URL of the API server for nodes and pods of any cluster.
func (c Cluster) Server() string {
	return "https://" + netip.AddrPortFrom(c.ControlPlane().Address, APIPort).String()
}

// ForwardServer returns the URL of the API server for programs that run on this machine outside all nodes.
func (c Cluster) ForwardServer() string { return fmt.Sprintf("https://127.0.0.1:%d", c.ForwardPort) }

func (c Cluster) address(host byte) netip.Addr {
	b := internet.Addr().As4()
	b[2], b[3] = byte(c.Index), host
	return netip.AddrFrom4(b)
}

// hardware derives a locally administered MAC address from an IPv4 address.
func hardware(address netip.Addr) string {
	b := address.As4()
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}

// nth returns the i-th subnet of p with the given prefix length, counted from 0.
func nth(p netip.Prefix, i, bits int) netip.Prefix {
	b := p.Addr().As4()
	v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	v += uint32(i) << (32 - bits)
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), bits)
}
