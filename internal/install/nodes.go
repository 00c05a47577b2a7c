package install

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// architectures are the architectures of Liqo's images.
var architectures = [...]string{"amd64", "arm64"}

// checkNodes returns the problems that prevent the pods of the installation from running on the nodes.
func checkNodes(request Request, facts Facts) []Problem {
	if facts.NodesUnknown {
		return nil
	}
	var out []Problem
	ours := slices.DeleteFunc(slices.Clone(facts.Nodes), func(node Node) bool {
		return (node.OS != "" && node.OS != "linux") || (node.Arch != "" && !slices.Contains(architectures[:], node.Arch))
	})
	if len(ours) == 0 {
		return append(out, Problem{fmt.Sprintf("none of the %d nodes runs Linux on %s", len(facts.Nodes), strings.Join(architectures[:], " or ")),
			"add one to the cluster, for the pods of the installation"})
	}
	if request.NoNetwork || request.SkipKernelCheck {
		return out
	}
	minimum := version.MustParseGeneric(MinimumKernel)
	old := map[string][]string{}
	var kernels []string
	for _, node := range ours {
		kernel, err := version.ParseGeneric(release(node.Kernel))
		if err != nil || !kernel.LessThan(minimum) {
			continue // an unreadable version is not known to be too old
		}
		if old[node.Kernel] == nil {
			kernels = append(kernels, node.Kernel)
		}
		old[node.Kernel] = append(old[node.Kernel], node.Name)
	}
	for _, kernel := range kernels {
		out = append(out, Problem{fmt.Sprintf("kernel %s of node %s is older than %s", kernel, strings.Join(old[kernel], ", "), MinimumKernel),
			"upgrade it, or install despite this with --disable-kernel-version-check"})
	}
	return out
}

// release returns the leading numbers of a kernel version: "5.4" of "5.4-rc1" and "5.4.0" of "5.4.0-150-generic".
func release(kernel string) string {
	end := strings.IndexFunc(kernel, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(kernel)
	}
	return strings.TrimRight(kernel[:end], ".")
}

// checkPorts returns a problem for each port that the agents need on every node and that a pod outside of Liqo uses.
func checkPorts(request Request, taken []Port) []Problem {
	if request.NoNetwork {
		return nil
	}
	var out []Problem
	for _, need := range [...]struct {
		number        int32
		protocol, key string
	}{
		{request.OverlayPort, "UDP", "networking.genevePort"},
		{request.HealthPort, "TCP", "networking.fabric.config.healthProbeBindAddressPort"},
		{request.MetricsPort, "TCP", "networking.fabric.config.metricsAddressPort"},
	} {
		var holders []string
		for _, port := range taken {
			if need.number != 0 && port.Number == need.number && port.Protocol == need.protocol && !slices.Contains(holders, port.Pod) {
				holders = append(holders, port.Pod)
			}
		}
		const shown = 3
		if more := len(holders) - shown; more > 0 {
			holders = append(holders[:shown], fmt.Sprintf("%d more", more))
		}
		if len(holders) > 0 {
			out = append(out, Problem{fmt.Sprintf("port %d/%s of the nodes is in use by pod %s", need.number, need.protocol, strings.Join(holders, ", ")),
				fmt.Sprintf("choose another one: --set %s=<port>", need.key)})
		}
	}
	return out
}
