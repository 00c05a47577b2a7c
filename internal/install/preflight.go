package install

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Problem is a requirement that the cluster does not meet, and what to do about it.
type Problem struct {
	What string
	Cure string
}

// String is one line for people.
func (p Problem) String() string { return p.What + ": " + p.Cure }

// Problems is an error that lists them all, so that a user can cure them in one go.
type Problems []Problem

// Error has one problem per line.
func (p Problems) Error() string {
	lines := make([]string, 0, len(p)+1)
	lines = append(lines, "the cluster does not meet the requirements (--skip-validation installs nevertheless):")
	for _, problem := range p {
		lines = append(lines, "  - "+problem.String())
	}
	return strings.Join(lines, "\n")
}

// Facts is what was found out about a cluster before an installation.
type Facts struct {
	// ServerVersion is the API server's, as it reports it.
	ServerVersion string
	// KubeconfigServer is the URL under which the API server was reached.
	KubeconfigServer string
	// InstalledID is the ID in the cluster-ID ConfigMap, empty without an installation; InstalledNamespace is where it was found.
	InstalledID, InstalledNamespace string
	// Denied are the permissions that the user lacks, as "verb resource".
	Denied []string
	// Network is what tells the address ranges.
	Network NetworkFacts
}

// Preflight returns the requirements that are not met for installing request into a cluster with these facts.
func Preflight(request Request, facts Facts) []Problem {
	var out []Problem
	if v, err := version.ParseGeneric(facts.ServerVersion); err != nil {
		out = append(out, Problem{fmt.Sprintf("the API server reports version %q, which is not understood", facts.ServerVersion),
			"check that the kubeconfig leads to a Kubernetes API server"})
	} else if v.LessThan(version.MustParseGeneric(MinimumVersion)) {
		out = append(out, Problem{fmt.Sprintf("Kubernetes %s is older than %s", facts.ServerVersion, MinimumVersion), "upgrade the cluster"})
	}
	for _, permission := range facts.Denied {
		out = append(out, Problem{fmt.Sprintf("the user of the kubeconfig may not %s", permission),
			"use a user bound to the ClusterRole cluster-admin, since the chart makes roles, definitions and webhooks"})
	}
	if facts.InstalledNamespace != "" && facts.InstalledNamespace != request.Namespace {
		out = append(out, Problem{fmt.Sprintf("Liqo is installed in namespace %s already", facts.InstalledNamespace),
			fmt.Sprintf("upgrade that installation (-n %s) or uninstall it", facts.InstalledNamespace)})
	}
	if facts.InstalledID != "" && request.ClusterID != "" && facts.InstalledID != request.ClusterID {
		out = append(out, Problem{fmt.Sprintf("the cluster has the ID %s already, and %s is asked for (--cluster-id or value discovery.config.clusterID)", facts.InstalledID, request.ClusterID),
			"leave that out, or unpeer and uninstall first, since every peering carries the ID"})
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
	return append(out, checkNetworks(request.networks(facts), request.ReservedSubnets, !request.NoNetwork)...)
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
