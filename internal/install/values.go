package install

import (
	"fmt"
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
	// APIServerURL under which peers reach the API server; empty leaves the choice.
	APIServerURL string
	// SkipAPIServerCheck takes APIServerURL as it is.
	SkipAPIServerCheck bool
	// EnableMetrics turns the metric endpoints on.
	EnableMetrics bool
	// GlobalLabels and GlobalAnnotations are put on every object.
	GlobalLabels, GlobalAnnotations map[string]string
}

func (r Request) networks(facts Facts) Networks {
	return DiscoverNetworks(r.Provider, r.PodCIDRs, r.ServiceCIDR, facts.Network)
}

// WithValues is the request with what the user's own values of the chart ask for: they win over flags, and are checked like them.
func (r Request) WithValues(given map[string]any) Request {
	text := func(path ...string) string {
		var at any = given
		for _, key := range path {
			below, _ := at.(map[string]any)
			at = below[key]
		}
		value, _ := at.(string)
		return value
	}
	networking, _ := given["networking"].(map[string]any)
	for _, key := range []string{"enabled", "internal"} {
		if on, ok := networking[key].(bool); ok && !on {
			r.NoNetwork = true
		}
	}
	if id := text("discovery", "config", "clusterID"); id != "" {
		r.ClusterID = id
	}
	if cidr := text("ipam", "serviceCIDR"); cidr != "" {
		r.ServiceCIDR = cidr
	}
	if cidr := text("ipam", "podCIDR"); cidr != "" {
		r.PodCIDRs = []string{cidr}
	}
	ipam, _ := given["ipam"].(map[string]any)
	if cidrs, _ := ipam["podCIDRs"].([]any); len(cidrs) > 0 {
		r.PodCIDRs = nil
		for _, cidr := range cidrs {
			r.PodCIDRs = append(r.PodCIDRs, fmt.Sprint(cidr))
		}
	}
	if cidrs, _ := ipam["reservedSubnets"].([]any); len(cidrs) > 0 {
		r.ReservedSubnets = nil
		for _, cidr := range cidrs {
			r.ReservedSubnets = append(r.ReservedSubnets, fmt.Sprint(cidr))
		}
	}
	return r
}

// Values are the chart values computed for the request in a cluster with these facts; seed chooses the cluster ID when neither the user
// nor an earlier installation did. The networks are returned too, to be shown.
func Values(request Request, facts Facts, seed uint64) (map[string]any, Networks) {
	networks := request.networks(facts)
	id := request.ClusterID
	if id == "" {
		id = facts.InstalledID
	}
	if id == "" {
		id = GeneratedClusterID(seed)
	}
	labels := map[string]any{}
	if request.Provider != Generic && request.Provider != "" {
		labels[LabelProvider] = string(request.Provider)
	}
	for key, value := range request.ClusterLabels {
		labels[key] = value
	}
	config := map[string]any{"clusterID": id}
	if len(labels) > 0 {
		config["clusterLabels"] = labels
	}
	// Only what is known is set: an upgrade keeps what an earlier installation was given for the rest.
	values := map[string]any{"discovery": map[string]any{"config": config}}
	if address := apiServer(request, facts); address != "" {
		values["apiServer"] = map[string]any{"address": address}
	}
	ipam := map[string]any{}
	if len(networks.PodCIDRs) > 0 {
		ipam["podCIDRs"] = list(networks.PodCIDRs)
	}
	if len(networks.ServiceCIDRs) > 0 {
		ipam["serviceCIDR"] = networks.ServiceCIDRs[0]
	}
	if len(request.ReservedSubnets) > 0 {
		ipam["reservedSubnets"] = list(request.ReservedSubnets)
	}
	if len(ipam) > 0 {
		values["ipam"] = ipam
	}
	if request.EnableMetrics {
		values["metrics"] = map[string]any{"enabled": true}
	}
	if common := commonValues(request); len(common) > 0 {
		values["common"] = common
	}
	return values, networks
}

func commonValues(request Request) map[string]any {
	out := map[string]any{}
	if len(request.GlobalLabels) > 0 {
		out["globalLabels"] = mapping(request.GlobalLabels)
	}
	if len(request.GlobalAnnotations) > 0 {
		out["globalAnnotations"] = mapping(request.GlobalAnnotations)
	}
	return out
}

// apiServer is the URL asked for, else that of the kubeconfig, unless it is one that only this machine can reach: then the controller
// manager finds an address itself.
func apiServer(request Request, facts Facts) string {
	switch {
	case request.APIServerURL != "":
		return request.APIServerURL
	case request.Provider == Kind, isLoopback(facts.KubeconfigServer):
		return ""
	}
	return facts.KubeconfigServer
}

func isLoopback(address string) bool {
	parsed, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := parsed.Hostname()
	return host == "localhost" || host == "0.0.0.0" || host == "::1" || strings.HasPrefix(host, "127.")
}

// Merge lays the later maps over the earlier ones, key by key; lists and plain values are replaced whole. The arguments are not changed.
func Merge(layers ...map[string]any) map[string]any {
	out := map[string]any{}
	for _, layer := range layers {
		for key, value := range layer {
			below, isMap := out[key].(map[string]any)
			over, overIsMap := value.(map[string]any)
			switch {
			case isMap && overIsMap:
				out[key] = Merge(below, over)
			case overIsMap:
				out[key] = maps.Clone(over)
			default:
				out[key] = value
			}
		}
	}
	return out
}

func list(items []string) []any {
	out := make([]any, 0, len(items))
	for _, item := range items {
		out = append(out, item)
	}
	return out
}

func mapping(items map[string]string) map[string]any {
	out := make(map[string]any, len(items))
	for key, value := range items {
		out[key] = value
	}
	return out
}
