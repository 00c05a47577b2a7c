package component

// The versions of the programs of a cluster. The go.mod and go.sum files in package build must pin the same versions.
const (
	KubernetesVersion    = "v1.35.4"
	EtcdVersion          = "v3.6.5"
	ContainerdVersion    = "v2.3.7"
	PluginsVersion       = "v1.9.1"
	CoreDNSVersion       = "v1.13.1"
	MetricsServerVersion = "v0.9.0"
)

// The images that every node imports when it starts; MetricsServerImage only in clusters with metrics-server.
// There is no registry, so nothing is ever pulled.
const (
	PauseImage         = "registry.local/pause:1"
	CoreDNSImage       = "registry.local/coredns:1.13.1"
	MetricsServerImage = "registry.local/metrics-server:0.9.0"
	// TestServerImage is an echo server over HTTP on port 8080 and UDP on port 5353. It also contains the clients for both.
	TestServerImage = "registry.local/testserver:1"
	// ShellImage is a static busybox together with the test server.
	ShellImage = "registry.local/shell:1"
)
