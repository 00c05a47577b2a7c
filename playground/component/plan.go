package component

import (
	"fmt"
	"net/netip"
)

// Paths inside a node. Package node mounts the folders.
const (
	// Set contains the output of package build: bin/, cni/ and images/. It is read-only.
	Set = "/opt/playground"
	// Self is the executable of the running playground program.
	Self = "/opt/bin/playground"
	// Credentials contains the keys, certificates and kubeconfigs of this node.
	Credentials = "/etc/kubernetes"
	// Logs contains one log file per program.
	Logs = "/var/log/playground"
	// Volumes contains the persistent volumes of a cluster. All nodes of the cluster share this folder.
	Volumes = "/var/lib/playground/volumes"
	// Runtime is the path of containerd's socket.
	Runtime = "/run/containerd/containerd.sock"
)

// Plan is everything that package node needs to create one node.
type Plan struct {
	Node Node `json:"node"`
	// Gateway is the next hop of the default route. Link is the node's address with the prefix length of its network.
	Gateway netip.Addr   `json:"gateway"`
	Link    netip.Prefix `json:"link"`
	// Routes are the routes to the pods of the other nodes.
	Routes []Route `json:"routes,omitempty"`
	// Ruleset is an nftables ruleset for "nft -f -". It may be empty.
	Ruleset string `json:"ruleset,omitempty"`
	// Credentials are the names of the files to copy into the folder Credentials.
	Credentials []string `json:"credentials"`
	// Files are written before any program starts.
	Files []File `json:"files"`
	// Services are the programs, in the order in which they start.
	Services []Service `json:"services"`
}

// Route is a route to the network To through the neighbor Via.
type Route struct {
	To  netip.Prefix `json:"to"`
	Via netip.Addr   `json:"via"`
}

// File is a file of a node. Its content is never secret.
type File struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// Service is a program that the node's supervisor restarts whenever it ends.
type Service struct {
	Name string   `json:"name"`
	Args []string `json:"args"`
	// Once means that the program is restarted only until it succeeds.
	Once bool `json:"once,omitempty"`
	// After lists the services with Once set that must have succeeded before the start.
	After []string `json:"after,omitempty"`
	// Sockets are the unix sockets that must accept connections before the start.
	Sockets []string `json:"sockets,omitempty"`
	// Get is a resource that must exist in the API server before the start.
	Get *Get `json:"get,omitempty"`
}

// Get is an HTTPS request with a client certificate. Authority, Certificate and Key are paths of files on the node.
type Get struct {
	URL         string `json:"url"`
	Authority   string `json:"authority"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// Plan returns the plan of the named node. It panics if the cluster has no node of that name.
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
