package install

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Problem is a requirement that the cluster does not meet, with its cure.
type Problem struct {
	What string
	Cure string
}

// String returns the problem as one line of text.
func (p Problem) String() string { return p.What + ": " + p.Cure }

// Problems is an error that lists all problems, so that the user can fix them together.
type Problems []Problem

// Error returns one problem per line.
func (p Problems) Error() string {
	lines := make([]string, 0, len(p)+1)
	lines = append(lines, "the cluster does not meet the requirements (--skip-validation installs nevertheless):")
	for _, problem := range p {
		lines = append(lines, "  - "+problem.String())
	}
	return strings.Join(lines, "\n")
}

// CheckRequest returns the parts of the request that are invalid or contradict the facts about the cluster. An installation with its values
// would fail.
func CheckRequest(request Request, facts Facts) []Problem {
	var out []Problem
	if facts.InstalledNamespace != "" && facts.InstalledNamespace != request.Namespace {
		out = append(out, Problem{fmt.Sprintf("Liqo is installed in namespace %s already", facts.InstalledNamespace),
			fmt.Sprintf("upgrade that installation (-n %s) or uninstall it", facts.InstalledNamespace)})
	}
	if facts.InstalledID != "" && request.ClusterID != "" && facts.InstalledID != request.ClusterID {
		out = append(out, Problem{fmt.Sprintf("the cluster has the ID %s already, and %s is requested (--cluster-id or value discovery.config.clusterID)", facts.InstalledID, request.ClusterID),
			"leave that out, or unpeer and uninstall first, because every peering depends on the ID"})
	}
	if request.ClusterID != "" {
		if err := ValidateClusterID(request.ClusterID); err != nil {
			out = append(out, Problem{err.Error(), "choose a DNS label of at most 63 characters with --cluster-id"})
		}
	}
	if !request.SkipAPIServerCheck && request.APIServerURL != "" {
		if problem := checkAPIServer(request.APIServerURL); problem != nil {
			out = append(out, *problem)
		}
	}
	if problem := checkCloud(request, facts); problem != nil {
		out = append(out, *problem)
	}
	if share := request.SharingPercentage; share != nil && (*share < 0 || *share > 100) {
		out = append(out, Problem{fmt.Sprintf("--sharing-percentage %d is no percentage", *share), "give a number from 0 to 100"})
	}
	if types := []string{"", "LoadBalancer", "NodePort", "ClusterIP"}; !slices.Contains(types, request.ServiceType) {
		out = append(out, Problem{fmt.Sprintf("--service-type %s is not known", request.ServiceType), "give one of LoadBalancer, NodePort, ClusterIP"})
	}
	return append(out, checkNetworks(DiscoverNetworks(request, facts), facts.Network, request.ReservedSubnets, !request.NoNetwork)...)
}

// CheckCluster returns the requirements of the request that the cluster or the user does not meet.
func CheckCluster(request Request, facts Facts) []Problem {
	var out []Problem
	if v, err := version.ParseGeneric(facts.ServerVersion); err != nil {
		out = append(out, Problem{fmt.Sprintf("the API server reports version %q, which is not a valid version", facts.ServerVersion),
			"check that the kubeconfig leads to a Kubernetes API server"})
	} else if v.LessThan(version.MustParseGeneric(MinimumVersion)) {
		out = append(out, Problem{fmt.Sprintf("Kubernetes %s is older than %s", facts.ServerVersion, MinimumVersion), "upgrade the cluster"})
	}
	for _, permission := range facts.Denied {
		out = append(out, Problem{fmt.Sprintf("the user of the kubeconfig may not %s", permission),
			"use a user bound to the ClusterRole cluster-admin, because the chart creates roles, custom resource definitions and webhooks"})
	}
	if problem := checkUpgrade(facts.InstalledVersion, request.Version); problem != nil {
		out = append(out, *problem)
	}
	if !request.NoNetwork && (facts.PodSecurity == "baseline" || facts.PodSecurity == "restricted") {
		out = append(out, Problem{fmt.Sprintf("namespace %s enforces the Pod Security level %s, which does not admit the agents of the network", request.Namespace, facts.PodSecurity),
			fmt.Sprintf("kubectl label --overwrite namespace %s pod-security.kubernetes.io/enforce=privileged, or install without the network: --set networking.enabled=false", request.Namespace)})
	}
	return append(append(out, checkNodes(request, facts)...), checkPorts(request, facts.Ports)...)
}

// checkUpgrade rejects a downgrade, because an older version may not be able to read objects that a newer version wrote.
func checkUpgrade(from, to string) *Problem {
	before, err := version.ParseSemantic(from)
	if err != nil {
		return nil
	}
	after, err := version.ParseSemantic(to)
	if err != nil || !after.LessThan(before) {
		return nil
	}
	return &Problem{fmt.Sprintf("version %s is installed, and %s is older", from, to), "use the liqoctl of that version or a later one, or uninstall first"}
}

// checkCloud rejects a kubeconfig that leads to another cluster than the cloud provider reported.
func checkCloud(request Request, facts Facts) *Problem {
	reported, here := facts.Cloud.APIServerURL, hostOf(facts.KubeconfigServer)
	if reported == "" || request.SkipAPIServerCheck || strings.EqualFold(hostOf(reported), here) ||
		slices.ContainsFunc(facts.Cloud.APIServerNames, func(name string) bool { return strings.EqualFold(name, here) }) {
		return nil
	}
	return &Problem{fmt.Sprintf("the kubeconfig leads to %s, but %s says that the API server of %s is %s", facts.KubeconfigServer, cloudOf(request), facts.Cloud.Name, reported),
		"check that both are the same cluster; --disable-api-server-sanity-check takes it for granted"}
}

func checkAPIServer(address string) *Problem {
	switch {
	case !strings.HasPrefix(address, "https://"):
		return &Problem{fmt.Sprintf("--api-server-url %s is not an https URL", address), "write it as https://host:port"}
	case isLoopback(address):
		return &Problem{fmt.Sprintf("--api-server-url %s leads peers to themselves", address),
			"give an address that the peers can reach, or --disable-api-server-sanity-check"}
	}
	return nil
}
