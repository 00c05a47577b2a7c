package component

import (
	"fmt"
	"net/netip"
)

// Folders inside a node. Package node mounts them.
const (
	// Set holds what package build made: bin/, cni/ and images/. It is read-only.
	Set = "/opt/playground"
	// Self is the running playground program.
	Self = "/opt/bin/playground"
	// Credentials holds the keys, certificates and kubeconfigs that this node may have.
	Credentials = "/etc/kubernetes"
	// Logs holds one file per program.
	Logs = "/var/log/playground"
	// Volumes is where the persistent volumes of a cluster are: the same folder on all its nodes.
	Volumes = "/var/lib/playground/volumes"
	// Runtime is containerd's socket.
	Runtime = "/run/containerd/containerd.sock"
)

// Plan is one node, whole: what package node needs to make it.
type Plan struct {
	Node Node `json:"node"`
	// Gateway is the default route; Link is the network the node's address is in.
	Gateway netip.Addr   `json:"gateway"`
	Link    netip.Prefix `json:"link"`
	// Routes lead to the other nodes' pods.
	Routes []Route `json:"routes,omitempty"`
	// Ruleset is text for "nft -f -", empty for none.
	Ruleset string `json:"ruleset,omitempty"`
	// Credentials are names of files to place in the folder of that name.
	Credentials []string `json:"credentials"`
	// Files are written before any program starts.
	Files []File `json:"files"`
	// Services are the programs, in the order in which they are started.
	Services []Service `json:"services"`
}

// Route leads to a network through a neighbour.
type Route struct {
	To  netip.Prefix `json:"to"`
	Via netip.Addr   `json:"via"`
}

// File is a file of a node. None of them is secret.
type File struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// Service is a program that is started again whenever it ends.
type Service struct {
	Name string   `json:"name"`
	Args []string `json:"args"`
	// Once programs are started again only until they succeed.
	Once bool `json:"once,omitempty"`
	// After names Once services that must have succeeded.
	After []string `json:"after,omitempty"`
	// Sockets are unix sockets that must answer before the start.
	Sockets []string `json:"sockets,omitempty"`
	// Get is a resource of the API server that must be there before the start.
	Get *Get `json:"get,omitempty"`
}

// Get asks for a URL as a client with a certificate. Authority, Certificate and Key are files of the node.
type Get struct {
	URL         string `json:"url"`
	Authority   string `json:"authority"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// Plan returns what the named node is made of. It panics for a name the cluster does not have.
func (c Cluster) Plan(name string) Plan {
	nodes := c.List()
	for _, n := range nodes {
		if n.Name == name {
			return c.plan(n, nodes)
		}
	}
	panic(fmt.Sprintf("cluster %s has no node %s", c.Name, name))
}

func (c Cluster) plan(n Node, all []Node) Plan {
	p := Plan{Node: n, Gateway: Router(), Link: netip.PrefixFrom(n.Address, internet.Bits())}
	p.Files = append(p.Files, hosts(n)...)
	if n.ControlPlane {
		files, services, credentials := c.controlPlane(n)
		p.Files, p.Services, p.Credentials = append(p.Files, files...), append(p.Services, services...), append(p.Credentials, credentials...)
	}
	if !c.ControlPlaneOnly {
		p.Ruleset = c.ruleset()
		for _, other := range all {
			if other.Name != n.Name {
				p.Routes = append(p.Routes, Route{To: other.PodCIDR, Via: other.Address})
			}
		}
		files, services, credentials := c.worker(n)
		p.Files, p.Services, p.Credentials = append(p.Files, files...), append(p.Services, services...), append(p.Credentials, credentials...)
	}
	return p
}

func bin(name string) string        { return Set + "/bin/" + name }
func credential(name string) string { return Credentials + "/" + name }

func hosts(n Node) []File {
	return []File{
		{"/etc/hostname", n.Name + "\n"},
		{"/etc/hosts", fmt.Sprintf("127.0.0.1 localhost %s\n%s %s\n", n.Name, n.Address, n.Name)},
		{"/etc/resolv.conf", "# there is no DNS outside the clusters\n"},
	}
}
