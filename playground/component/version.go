package component

// Versions of everything a cluster is made of. Package build holds the module sums that belong to them.
const (
	KubernetesVersion    = "v1.35.4"
	EtcdVersion          = "v3.6.5"
	ContainerdVersion    = "v2.3.7"
	PluginsVersion       = "v1.9.1"
	CoreDNSVersion       = "v1.13.1"
	MetricsServerVersion = "v0.9.0"
)

// Images every node holds from its first second. There is no registry: nothing is ever pulled.
const (
	PauseImage         = "registry.local/pause:1"
	CoreDNSImage       = "registry.local/coredns:1.13.1"
	MetricsServerImage = "registry.local/metrics-server:0.9.0"
	// TestServerImage echoes over HTTP on 8080 and UDP on 5353, and is the client for both.
	TestServerImage = "registry.local/testserver:1"
	// ShellImage is a static busybox with the test server beside it.
	ShellImage = "registry.local/shell:1"
)
