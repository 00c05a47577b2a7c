package install

import (
	"maps"
	"net/url"
	"strings"
)

// LabelProvider is the cluster label that tells the provider; virtual nodes carry it.
const LabelProvider = "liqo.io/provider"

// Request is what the user asks for.
type Request struct {
	Provider Provider
	// Namespace of the installation.
	Namespace string
	// Version that is going to be installed.
	Version string
	// ClusterID asked for; empty leaves the choice.
	ClusterID string
	// ClusterLabels are put on the virtual nodes that peers have for this cluster.
	ClusterLabels map[string]string
	// PodCIDRs, ServiceCIDR and ReservedSubnets asked for; the first two are discovered where empty.
	PodCIDRs        []string
	ServiceCIDR     string
	ReservedSubnets []string
	// NoNetwork tells that pods of different clusters are not to reach each other, or not through us.
	NoNetwork bool
	// OverlayPort (UDP), HealthPort and MetricsPort (TCP) are what the agents listen at on every node; 0 where they do not.
	OverlayPort, HealthPort, MetricsPort int32
	// SkipKernelCheck takes the kernels as they are.
	SkipKernelCheck bool
	// APIServerURL under which peers reach the API server; empty leaves the choice.
	APIServerURL string
	// SkipAPIServerCheck takes APIServerURL as it is.
	SkipAPIServerCheck bool
	// SharingPercentage is how much of what is free peers may use; nil leaves it to the chart.
	SharingPercentage *int
	// ServiceType of what peers reach from outside; empty leaves it to the provider, and then to the chart.
	ServiceType string
	// HighlyAvailable has a second one of everything that a failure must not stop.
	HighlyAvailable bool
	// EnableMetrics turns the metric endpoints on.
	EnableMetrics bool
	// GlobalLabels and GlobalAnnotations are put on every object.
	GlobalLabels, GlobalAnnotations map[string]string
}

// WithValues is the request with what values of the chart ask for: they win over flags, and are checked like them.
func (r Request) WithValues(given map[string]any) Request {
	if id := text(given, "discovery", "config", "clusterID"); id != "" {
		r.ClusterID = id
	}
	if address := text(given, "apiServer", "address"); address != "" {
		r.APIServerURL = address
	}
	if cidr := text(given, "ipam", "serviceCIDR"); cidr != "" {
		r.ServiceCIDR = cidr
	}
	if cidr := text(given, "ipam", "podCIDR"); cidr != "" {
		r.PodCIDRs = []string{cidr}
	}
	if cidrs := texts(given, "ipam", "podCIDRs"); len(cidrs) > 0 {
		r.PodCIDRs = cidrs
	}
	if cidrs := texts(given, "ipam", "reservedSubnets"); len(cidrs) > 0 {
		r.ReservedSubnets = cidrs
	}
	return r
}

// WithAgents is the request with what all values of the chart, its defaults included, say about the agents of the network: whether there are
// any, and the ports that they listen at.
func (r Request) WithAgents(all map[string]any) Request {
	for _, key := range []string{"enabled", "internal"} {
		if on, ok := at(all, "networking", key).(bool); ok && !on {
			r.NoNetwork = true
		}
	}
	r.OverlayPort = number(all, "networking", "genevePort")
	r.HealthPort = number(all, "networking", "fabric", "config", "healthProbeBindAddressPort")
	if on, _ := at(all, "metrics", "enabled").(bool); on || r.EnableMetrics {
		r.MetricsPort = number(all, "networking", "fabric", "config", "metricsAddressPort")
	}
	return r
}

// Values are the chart values computed for the request in a cluster with these facts; seed chooses the cluster ID when neither the user
// nor an earlier installation did. The networks are returned too, to be shown.
func Values(request Request, facts Facts, seed uint64) (map[string]any, Networks) {
	networks := DiscoverNetworks(request, facts)
	// Only what is known is set: an upgrade keeps what an earlier installation was given for the rest.
	values := Merge(
		setting(clusterID(request, facts, seed), "discovery", "config", "clusterID"),
		setting(mapping(labels(request, facts)), "discovery", "config", "clusterLabels"),
		setting(apiServer(request, facts), "apiServer", "address"),
		setting(list(networks.PodCIDRs), "ipam", "podCIDRs"),
		setting(list(reserved(request, facts)), "ipam", "reservedSubnets"),
		setting(mapping(request.GlobalLabels), "common", "globalLabels"),
		setting(mapping(request.GlobalAnnotations), "common", "globalAnnotations"),
		setting(serviceType(request), "auth", "service", "type"),
		setting(request.EnableMetrics, "metrics", "enabled"),
		setting(request.Provider == OpenShift, "openshiftConfig", "enabled"),
	)
	if len(networks.ServiceCIDRs) > 0 {
		values = Merge(values, setting(networks.ServiceCIDRs[0], "ipam", "serviceCIDR"))
	}
	if request.SharingPercentage != nil { // also with 0, which shares nothing
		values = Merge(values, put(*request.SharingPercentage, "controllerManager", "config", "resourceSharingPercentage"))
	}
	if request.HighlyAvailable {
		values = Merge(values, twoOfEach())
	}
	return values, networks
}

// twoOfEach has everything twice that is at work for the whole cluster: one at work, and one that takes over.
func twoOfEach() map[string]any {
	const replicas = 2
	return Merge(
		setting(replicas, "controllerManager", "replicas"),
		setting(replicas, "networking", "gatewayTemplates", "replicas"),
		setting(replicas, "proxy", "replicas"),
		setting(replicas, "virtualKubelet", "replicas"),
	)
}

// clusterID is the ID asked for, else that of the installation, else the name in the cloud, else a generated one.
func clusterID(request Request, facts Facts, seed uint64) string {
	for _, id := range []string{request.ClusterID, facts.InstalledID, dnsLabel(facts.Cloud.Name)} {
		if id != "" {
			return id
		}
	}
	return GeneratedClusterID(seed)
}

func labels(request Request, facts Facts) map[string]string {
	out := map[string]string{}
	if request.Provider != Generic && request.Provider != "" {
		out[LabelProvider] = string(request.Provider)
	}
	maps.Copy(out, facts.Cloud.Labels)
	maps.Copy(out, request.ClusterLabels)
	return out
}

// reserved are the subnets asked for, else those of the installation, else those that the cloud has in use.
func reserved(request Request, facts Facts) []string {
	for _, subnets := range [][]string{request.ReservedSubnets, texts(facts.Installed, "ipam", "reservedSubnets")} {
		if len(subnets) > 0 {
			return subnets
		}
	}
	return facts.Cloud.ReservedSubnets
}

// serviceType is the one asked for; clusters on single machines have nobody who would provide a load balancer.
func serviceType(request Request) string {
	if request.ServiceType == "" && (request.Provider == Kind || request.Provider == K3s) {
		return "NodePort"
	}
	return request.ServiceType
}

// apiServer is the URL asked for, else that of the installation, of the cloud, of the kubeconfig, the last unless it is one that only this machine can reach: then the controller
// manager finds an address itself.
func apiServer(request Request, facts Facts) string {
	switch {
	case request.APIServerURL != "":
		return request.APIServerURL
	case text(facts.Installed, "apiServer", "address") != "":
		return text(facts.Installed, "apiServer", "address")
	case facts.Cloud.APIServerURL != "":
		return facts.Cloud.APIServerURL
	case request.Provider == Kind, isLoopback(facts.KubeconfigServer):
		return ""
	}
	return facts.KubeconfigServer
}

// hostOf is the host of a URL without its port; empty if it is none.
func hostOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return parsed.Hostname()
}

func isLoopback(address string) bool {
	host := hostOf(address)
	return host == "localhost" || host == "0.0.0.0" || host == "::1" || strings.HasPrefix(host, "127.")
}
