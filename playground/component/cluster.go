// Package component says what a cluster is made of, as data: a Cluster value goes in; addresses, certificates, files,
// program arguments and manifests come out. It does no input or output, so all of it can be read in golden files.
package component

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
)

// internet is the network all nodes of all clusters are plugged into. Cluster i owns the /24 with i as its third byte:
// the lower half for its nodes, the upper half for its load balancers.
var internet = netip.MustParsePrefix("172.30.0.0/16")

const (
	// MaxIndex is the highest cluster index; index 0 holds the router.
	MaxIndex = 250
	// MaxNodes is how many nodes a cluster may have.
	MaxNodes = 60
	// APIPort is where the API server listens on the control plane node's address.
	APIPort = 6443
	// nodePrefixBits is the length of a node's share of the pod CIDR.
	nodePrefixBits = 24
)

// Internet returns the network that joins all nodes of all clusters.
func Internet() netip.Prefix { return internet }

// Router returns the address the "internet" itself has: every node's default gateway. It forwards nothing.
func Router() netip.Addr { return internet.Addr().Next() }

// Cluster is everything that decides what a cluster looks like.
type Cluster struct {
	// Name is a DNS label; the nodes are NAME-1, NAME-2, ...; NAME-1 is the control plane.
	Name string `json:"name"`
	// Index is unique among the clusters of a machine, from 1 to MaxIndex. Addresses follow from it.
	Index int `json:"index"`
	// Nodes counts the control plane node too.
	Nodes int `json:"nodes"`
	// PodCIDR and ServiceCIDR may be the same in every cluster.
	PodCIDR     netip.Prefix `json:"podCIDR"`
	ServiceCIDR netip.Prefix `json:"serviceCIDR"`
	// ForwardPort is the port on the machine's own loopback that leads to the API server.
	ForwardPort int `json:"forwardPort"`
	// ControlPlaneOnly leaves out kubelet, containerd, kube-proxy and CoreDNS: no pod ever runs.
	ControlPlaneOnly bool `json:"controlPlaneOnly,omitempty"`
	// FakeNodes is the number of make-believe nodes, whose pods are Ready at once. It needs ControlPlaneOnly.
	FakeNodes int `json:"fakeNodes,omitempty"`
	// MetricsServer adds metrics-server.
	MetricsServer bool `json:"metricsServer,omitempty"`
	// CNI is how pods are joined to their node, PointToPoint if it is empty.
	CNI string `json:"cni,omitempty"`
	// Audit makes the API server log every write, without bodies, to audit.log in the node's log folder.
	Audit bool `json:"audit,omitempty"`
	// PodSecurity is the level of Pod Security for namespaces that say nothing, apart from kube-system; Kubernetes' own default if it is empty.
	PodSecurity string `json:"podSecurity,omitempty"`
}

// How pods are joined to their node. The difference is worth having: the kernel cuts packets that a tunnel wraps at a bridge, and not at a cable.
const (
	// PointToPoint gives each pod a cable and a route, as Calico and kind do.
	PointToPoint = "ptp"
	// Bridge joins the pods of a node, as Flannel and k3s do.
	Bridge = "bridge"
)

// Node is one machine of a cluster.
type Node struct {
	Name    string     `json:"name"`
	Address netip.Addr `json:"address"`
	// PodCIDR is this node's share of the cluster's; invalid in a cluster that runs no pods.
	PodCIDR netip.Prefix `json:"podCIDR"`
	// MAC is the hardware address: a node that starts anew keeps it, or its neighbours would look for the old one for a while.
	MAC string `json:"mac"`
	// Cable is the interface name of this node's end in the "internet".
	Cable        string `json:"cable"`
	ControlPlane bool   `json:"controlPlane"`
}

var nameForm = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$`)

// CheckName says what is wrong with the name of a cluster, or nil. Names become names of folders.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("name %q: want at most 30 lower-case letters, digits and hyphens, a letter first", name)
	}
	return nil
}

// Lacks says what of the options of another cluster this one does not have, each with both values. Auditing and metrics-server that nobody asks for do no harm.
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
	differs(want.MetricsServer && !c.MetricsServer, "no --metrics-server")
	differs(want.Audit && !c.Audit, "no --audit")
	return lacks
}

// Validate says what is wrong with the cluster, all at once, or nil.
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

// List returns the cluster's nodes, the control plane first.
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

// LoadBalancers returns the addresses that Services of type LoadBalancer get. They are reachable from all clusters.
func (c Cluster) LoadBalancers() netip.Prefix {
	return netip.PrefixFrom(c.address(128), 25)
}

// DNS returns the address of the cluster's DNS service.
func (c Cluster) DNS() netip.Addr { return nth(c.ServiceCIDR, 10, 32).Addr() }

// API returns the address of the Service default/kubernetes.
func (c Cluster) API() netip.Addr { return nth(c.ServiceCIDR, 1, 32).Addr() }

// Server returns the API server's URL as nodes and pods of any cluster reach it.
func (c Cluster) Server() string {
	return "https://" + netip.AddrPortFrom(c.ControlPlane().Address, APIPort).String()
}

// ForwardServer returns the API server's URL as programs of this machine, outside all nodes, reach it.
func (c Cluster) ForwardServer() string { return fmt.Sprintf("https://127.0.0.1:%d", c.ForwardPort) }

func (c Cluster) address(host byte) netip.Addr {
	b := internet.Addr().As4()
	b[2], b[3] = byte(c.Index), host
	return netip.AddrFrom4(b)
}

// hardware makes a locally administered MAC address of an IPv4 address.
func hardware(address netip.Addr) string {
	b := address.As4()
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}

// nth returns the i-th network of the given length inside p.
func nth(p netip.Prefix, i, bits int) netip.Prefix {
	b := p.Addr().As4()
	v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	v += uint32(i) << (32 - bits)
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), bits)
}
