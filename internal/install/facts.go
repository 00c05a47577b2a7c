package install

// Facts is what was found out about a cluster before an installation.
type Facts struct {
	// ServerVersion is the API server's, as it reports it.
	ServerVersion string
	// KubeconfigServer is the URL under which the API server was reached.
	KubeconfigServer string
	// Groups are the API groups that are served.
	Groups []string
	// InstalledID is the ID in the cluster-ID ConfigMap, empty without an installation; InstalledNamespace is where it was found.
	InstalledID, InstalledNamespace string
	// InstalledVersion and Installed are the version and the values of the Helm release that an upgrade starts from.
	InstalledVersion string
	Installed        map[string]any
	// Denied are the permissions that the user lacks, as "verb resource".
	Denied []string
	// PodSecurity is the level that the namespace of the installation enforces, empty where it says none.
	PodSecurity string
	// Network is what tells the address ranges.
	Network NetworkFacts
	// Nodes are the ordinary nodes. NodesUnknown tells that they can't be read.
	Nodes        []Node
	NodesUnknown bool
	// Ports are those that pods of others hold on their nodes.
	Ports []Port
	// Cloud is what the provider's own API says.
	Cloud Cloud
}

// Node is what matters of a node.
type Node struct {
	Name string
	// ProviderID is its name in the infrastructure, as "gce://project/zone/name".
	ProviderID string
	Labels     map[string]string
	// Kernel, OS and Arch are as the kubelet reports them: "6.1.0-13-amd64", "linux", "amd64".
	Kernel, OS, Arch string
}

// Port is one on a node that a pod holds.
type Port struct {
	// Number and Protocol (TCP, UDP) are on the node itself.
	Number   int32
	Protocol string
	// Pod is "namespace/name".
	Pod string
}

// Cloud is what a cloud says of a cluster. Empty parts are not known to it.
type Cloud struct {
	// Name of the cluster there.
	Name string
	// PodCIDRs and ServiceCIDR are the cluster's ranges, ReservedSubnets those that its network uses otherwise.
	PodCIDRs        []string
	ServiceCIDR     string
	ReservedSubnets []string
	// APIServerURL under which it is reached from outside; APIServerNames are other hosts that are the same one.
	APIServerURL   string
	APIServerNames []string
	// Labels are put on the virtual nodes that peers have for the cluster: its region.
	Labels map[string]string
	// Notes are what could not be found out, each with what to do about it.
	Notes []string
}
