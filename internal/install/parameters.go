package install

import (
	"cmp"
	"fmt"
	"strings"
)

// Parameter is a parameter of an installation, for display to the user.
type Parameter struct {
	Name, Value string
	// Source describes where the value was found. Flag is the flag that overrides it.
	Source, Flag string
}

// String returns the parameter as one line of text.
func (p Parameter) String() string {
	line := p.Name + ": " + p.Value
	if p.Source != "" {
		line += ", from " + p.Source
	}
	if p.Flag != "" {
		line += " (" + p.Flag + ")"
	}
	return line
}

// Parameters returns the discovered and chosen parameters of the request. It reads them from the values for the chart. evidence says how the
// distribution was detected.
func Parameters(request Request, facts Facts, values map[string]any, networks Networks, evidence string) []Parameter {
	id := text(values, "discovery", "config", "clusterID")
	out := []Parameter{
		{"Provider", string(request.Provider), evidence, ""},
		{"Cluster ID", id, origin(id, "a random choice", statement{request.ClusterID, asked}, statement{facts.InstalledID, has}, statement{dnsLabel(facts.Cloud.Name), cloudOf(request)}), "--cluster-id"},
		{"Pod CIDR", strings.Join(networks.PodCIDRs, ", "), networks.PodSource, "--pod-cidr"},
		{"Service CIDR", strings.Join(networks.ServiceCIDRs, ", "), networks.ServiceSource, "--service-cidr"},
	}
	address := text(values, "apiServer", "address")
	source := origin(address, "", statement{request.APIServerURL, asked}, statement{text(facts.Installed, "apiServer", "address"), has},
		statement{facts.Cloud.APIServerURL, cloudOf(request)}, statement{facts.KubeconfigServer, "the kubeconfig"})
	if address == "" {
		address, source = "found by the controller manager among the endpoints of Service kubernetes", ""
	}
	out = append(out, Parameter{"API server", address, source, "--api-server-url"}, reachedBy(request, facts, values))
	if subnets := texts(values, "ipam", "reservedSubnets"); len(subnets) > 0 {
		out = append(out, Parameter{"Reserved subnets", strings.Join(subnets, ", "), "", "--reserved-subnets"})
	}
	for i := range out {
		if out[i].Value == "" {
			out[i].Value, out[i].Source = "unknown", ""
		}
	}
	return out
}

// reachedBy returns the parameter with the types of the Services that peers reach.
func reachedBy(request Request, facts Facts, values map[string]any) Parameter {
	auth := cmp.Or(text(values, authServiceType...), defaultServiceType)
	gateways := cmp.Or(text(values, gatewayServiceType...), defaultServiceType)
	shown := auth
	if gateways != auth {
		shown = fmt.Sprintf("%s for the authentication service, %s for new gateways", auth, gateways)
	}
	usual := cmp.Or(serviceType(Request{Provider: request.Provider}, Facts{}), defaultServiceType)
	source := origin(auth, "the values given", statement{request.ServiceType, asked}, statement{text(facts.Installed, authServiceType...), has},
		statement{usual, "the default for " + string(request.Provider)})
	return Parameter{"Reached by", shown, source, "--service-type"}
}

type statement struct{ value, by string }

// origin returns the name of the first source that contains the value. If none contains it, origin returns the text in otherwise.
func origin(value, otherwise string, sources ...statement) string {
	for _, source := range sources {
		if source.value != "" && source.value == value {
			return source.by
		}
	}
	return otherwise
}

// Summary returns the parameters as text, one per line.
func Summary(parameters []Parameter) string {
	var lines strings.Builder
	for _, parameter := range parameters {
		fmt.Fprintf(&lines, "%s\n", parameter)
	}
	return strings.TrimSuffix(lines.String(), "\n")
}
