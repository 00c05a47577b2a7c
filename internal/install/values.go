package install

import (
	"maps"
	"net/url"
	"strings"
)

// LabelProvider is the cluster label that holds the distribution or cloud service of the cluster, such as eks or kubeadm. The virtual nodes for the
// cluster carry it.
const LabelProvider = "liqo.io/provider"

// Request holds the options of the user for an installation.
type Request struct {
	Provider Provider
	// Namespace is the namespace of the installation.
	Namespace string
	// Version is the version to install.
	Version string
	// ClusterID is the requested cluster ID. If it is empty, one is chosen.
	ClusterID string
	// ClusterLabels are set on the virtual nodes that peers create for this cluster.
	ClusterLabels map[string]string
	// PodCIDRs, ServiceCIDR and ReservedSubnets are the requested ranges. PodCIDRs and ServiceCIDR are discovered if they are empty.
	PodCIDRs        []string
	ServiceCIDR     string
	ReservedSubnets []string
	// NoNetwork means that Liqo does not connect the pods of different clusters.
	NoNetwork bool
	// OverlayPort (UDP), HealthPort and MetricsPort (TCP) are the ports of the agents on every node. 0 means that the agents do not use the
	// port.
	OverlayPort, HealthPort, MetricsPort int32
	// SkipKernelCheck disables the check of the nodes' kernel versions.
	SkipKernelCheck bool
	// APIServerURL is the URL at which peers reach the API server. If it is empty, one is chosen.
	APIServerURL string
	// SkipAPIServerCheck disables the checks of the API server's URL.
	SkipAPIServerCheck bool
	// SharingPercentage is the percentage of the free resources that peers may use. nil means the default of the chart.
	SharingPercentage *int
	// ServiceType is the type of the Services of the authentication service and of new gateways. If it is empty, the type of the installation
	// applies, or else the default of the distribution, or else the default of the chart.
	ServiceType string
	// HighlyAvailable runs two replicas of each component that must survive a failure.
	HighlyAvailable bool
	// EnableMetrics enables the metrics endpoints.
	EnableMetrics bool
	// GlobalLabels and GlobalAnnotations are set on every object.
	GlobalLabels, GlobalAnnotations map[string]string
}

// WithValues returns the request with the settings from the given chart values. They override flags and are checked in the same way.
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

// WithAgents returns the request with the settings of the network agents from all chart values, including defaults: whether agents run, and
// which ports they use.
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

// Values returns the chart values for the request in a cluster with these facts, and the networks for display. The seed determines the
// cluster ID if neither the user, an earlier installation nor the cloud provides one.
func Values(request Request, facts Facts, seed uint64) (map[string]any, Networks) {
	networks := DiscoverNetworks(request, facts)
	// Only known values are set. For the rest, an upgrade keeps the values of the earlier installation.
	values := Merge(
		setting(clusterID(request, facts, seed), "discovery", "config", "clusterID"),
		setting(mapping(labels(request, facts)), "discovery", "config", "clusterLabels"),
		setting(apiServer(request, facts), "apiServer", "address"),
		setting(list(networks.PodCIDRs), "ipam", "podCIDRs"),
		setting(list(reserved(request, facts)), "ipam", "reservedSubnets"),
		setting(mapping(request.GlobalLabels), "common", "globalLabels"),
		setting(mapping(request.GlobalAnnotations), "common", "globalAnnotations"),
		setting(serviceType(request, facts, authServiceType...), authServiceType...),
		setting(serviceType(request, facts, gatewayServiceType...), gatewayServiceType...),
		specials(request, facts),
		setting(request.EnableMetrics, "metrics", "enabled"),
		setting(request.Provider == OpenShift, "openshiftConfig", "enabled"),
	)
	if len(networks.ServiceCIDRs) > 0 {
		values = Merge(values, setting(networks.ServiceCIDRs[0], "ipam", "serviceCIDR"))
	}
	if request.SharingPercentage != nil { // 0 is valid too: it shares nothing
		values = Merge(values, put(*request.SharingPercentage, "controllerManager", "config", "resourceSharingPercentage"))
	}
	if request.HighlyAvailable {
		values = Merge(values, twoOfEach())
	}
	return values, networks
}

// twoOfEach sets two replicas for each component that serves the whole cluster: one active, and one that takes over.
func twoOfEach() map[string]any {
	const replicas = 2
	return Merge(
		setting(replicas, "controllerManager", "replicas"),
		setting(replicas, "networking", "gatewayTemplates", "replicas"),
		setting(replicas, "proxy", "replicas"),
		setting(replicas, "virtualKubelet", "replicas"),
	)
}

// clusterID returns the requested ID, or else the ID of the installation, or else the name in the cloud, or else a generated ID.
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

// reserved returns the requested subnets, or else those of the installation, or those that the cloud reports as in use.
func reserved(request Request, facts Facts) []string {
	for _, subnets := range [][]string{request.ReservedSubnets, texts(facts.Installed, "ipam", "reservedSubnets")} {
		if len(subnets) > 0 {
			return subnets
		}
	}
	return facts.Cloud.ReservedSubnets
}

// defaultServiceType is the chart's default of authServiceType and gatewayServiceType.
const defaultServiceType = "LoadBalancer"

// The chart values with the types of the Services that peers reach.
var (
	authServiceType    = []string{"auth", "service", "type"}
	gatewayServiceType = []string{"networking", "gatewayTemplates", "server", "service", "type"}
)

// serviceType returns the requested type, or else that of the installation, or NodePort for clusters on a single machine: usually, nothing
// there gives a load balancer an address that other machines reach.
func serviceType(request Request, facts Facts, value ...string) string {
	switch {
	case request.ServiceType != "":
		return request.ServiceType
	case text(facts.Installed, value...) != "":
		return text(facts.Installed, value...)
	case request.Provider == Kind, request.Provider == K3s:
		return "NodePort"
	}
	return ""
}

// rulePriorityOfVPCCNI is the priority of the first rule with which the CNI of EKS routes packets of pods to other networks. It marks them and routes them by
// the main table. At priority 1536, it routes other packets of a pod through the network interface of the pod's address.
const rulePriorityOfVPCCNI = 1024

// special is a value of the chart that one kind of cluster needs.
type special struct {
	provider Provider
	value    any
	path     []string
}

var specialValues = [...]special{
	// Classic load balancers carry no UDP.
	{EKS, "nlb", []string{"networking", "gatewayTemplates", "server", "service", "annotations", "service.beta.kubernetes.io/aws-load-balancer-type"}},
	// EKS signs no certificates for users.
	{EKS, "token", []string{"authentication", "identity"}},
	// The rules of Liqo come right before this priority. Otherwise packets of pods to peers would leave by the routes of the CNI.
	{EKS, rulePriorityOfVPCCNI, []string{"networking", "fabric", "config", "routeConfigurationRulePriority"}},
	// Azure has no machine of a virtual node. With this label, its controllers assume that there is one, and add neither routes nor load balancers for it.
	{AKS, "false", []string{"virtualKubelet", "virtualNode", "extra", "labels", "kubernetes.azure.com/managed"}},
}

// specials returns the values that the kind of the cluster needs. It leaves out those for which the installation has a value.
func specials(request Request, facts Facts) map[string]any {
	var out []map[string]any
	for _, s := range specialValues {
		if s.provider == request.Provider && at(facts.Installed, s.path...) == nil {
			out = append(out, put(s.value, s.path...))
		}
	}
	return Merge(out...)
}

// apiServer returns the requested URL, or else that of the installation, of the cloud, or of the kubeconfig. It ignores a kubeconfig URL
// that only this machine can reach. The result is then empty, and the controller manager determines the address itself.
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

// hostOf returns the host of a URL without its port. It is empty if the URL is invalid.
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
