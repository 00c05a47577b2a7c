package install

// Facts holds the facts gathered about a cluster before an installation.
type Facts struct {
	// ServerVersion is the version that the API server reports.
	ServerVersion string
	// KubeconfigServer is the URL of the API server in the kubeconfig.
	KubeconfigServer string
	// Groups are the API groups that the API server serves.
	Groups []string
	// InstalledID is the ID in the cluster-ID ConfigMap, and InstalledNamespace is the namespace of that ConfigMap. Both are empty without
	// an installation.
	InstalledID, InstalledNamespace string
	// InstalledVersion and Installed are the version and the values of the current Helm release, from which an upgrade starts.
	InstalledVersion string
	Installed        map[string]any
	// Denied are the permissions that the user lacks, as "verb resource".
	Denied []string
	// PodSecurity is the Pod Security level that the namespace of the installation enforces. It is empty if the namespace has no such
	// label.
	PodSecurity string
	// Network holds the facts from which the address ranges are derived.
	Network NetworkFacts
	// Nodes are the ordinary nodes, without virtual nodes. NodesUnknown means that the nodes cannot be read.
	Nodes        []Node
	NodesUnknown bool
	// Ports are the ports that pods outside of Liqo use on their nodes.
	Ports []Port
	// Cloud holds the facts from the API of the cloud provider.
	Cloud Cloud
}

// Node holds the relevant facts about a node.
type Node struct {
	Name string
	// ProviderID identifies the node in the infrastructure, for example "gce://project/zone/name".
	ProviderID string
	Labels     map[string]string
	// Kernel, OS and Arch are as the kubelet reports them: "6.1.0-13-amd64", "linux", "amd64".
	Kernel, OS, Arch string
}

// Port is a port of a node that a pod uses.
type Port struct {
	// Number and Protocol (TCP or UDP) are those on the node itself.
	Number   int32
	Protocol string
	// Pod is the pod, as "namespace/name".
	Pod string
}

// Cloud holds the facts that a cloud provider has about a cluster. Unknown facts are empty.
type Cloud struct {
	// Name is the name of the cluster in the cloud.
	Name string
	// PodCIDRs and ServiceCIDR are the ranges of the cluster. ReservedSubnets are other ranges in use in its network.
	PodCIDRs        []string
	ServiceCIDR     string
	ReservedSubnets []string
	// APIServerURL is the URL of the API server for clients outside the cluster. APIServerNames are other host names of the same API
	// server.
	APIServerURL   string
	APIServerNames []string
	// Labels are set on the virtual nodes that peers create for the cluster. They contain its region.
	Labels map[string]string
	// Notes lists facts that could not be read, each with what the user can do about it.
	Notes []string
}
