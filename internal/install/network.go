package install

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Networks holds the address ranges of a cluster. The sources describe where each range was found, so that the user can judge it.
type Networks struct {
	PodCIDRs      []string
	PodSource     string
	ServiceCIDRs  []string
	ServiceSource string
}

// NetworkFacts holds all facts in a cluster that may contain its address ranges. A field is empty if the fact does not exist or cannot be
// read.
type NetworkFacts struct {
	// Kubeadm means that ConfigMap kubeadm-config exists. The subnets are from the networking section of its ClusterConfiguration.
	Kubeadm                                bool
	KubeadmPodSubnet, KubeadmServiceSubnet string
	// ControllerManagerArgs are the arguments of the kube-controller-manager's container.
	ControllerManagerArgs []string
	// K3sArgs are the command line arguments of a k3s server.
	K3sArgs []string
	// OpenShiftPods and OpenShiftServices are from the status of OpenShift's Network object.
	OpenShiftPods, OpenShiftServices []string
	// CalicoPools are the ranges of the enabled IPPools of Calico that assign addresses to pods.
	CalicoPools []string
	// CiliumPool holds the ranges of Cilium's cluster-pool IPAM, separated by spaces.
	CiliumPool string
	// NodePodCIDRs are the spec.podCIDRs of every ordinary node.
	NodePodCIDRs []string
	// ServiceCIDRs are the ranges of the ServiceCIDR objects.
	ServiceCIDRs []string
	// ServiceError is the message with which the API server refuses a Service outside its range.
	ServiceError string
	// PodAddresses are addresses of some pods without host network. ServiceAddress is the address of Service kubernetes. The discovered
	// ranges must contain them.
	PodAddresses   []PodAddress
	ServiceAddress string
}

// PodAddress is an address and the pod that has it, as "namespace/name".
type PodAddress struct{ Pod, Address string }

// DiscoverNetworks picks the best source for each range. The user's request comes first, then the installation, whose ranges its peers know. The
// fixed ranges of a distribution and guesses come last. A range without any source stays empty.
func DiscoverNetworks(request Request, facts Facts) Networks {
	network := facts.Network
	args, k3s := arguments(network.ControllerManagerArgs), arguments(network.K3sArgs)
	installed := Request{}.WithValues(facts.Installed)
	var n Networks
	n.PodCIDRs, n.PodSource = firstOf(
		candidate{request.PodCIDRs, asked},
		candidate{installed.PodCIDRs, has},
		candidate{facts.Cloud.PodCIDRs, cloudOf(request)},
		candidate{network.OpenShiftPods, "Network cluster of OpenShift"},
		candidate{network.CalicoPools, "IPPools of Calico"},
		candidate{split(network.CiliumPool), "ConfigMap cilium-config"},
		candidate{split(network.KubeadmPodSubnet), "ConfigMap kubeadm-config"},
		candidate{split(args["cluster-cidr"]), "arguments of kube-controller-manager"},
		candidate{split(k3s["cluster-cidr"]), "arguments of the k3s server"},
		candidate{only(request.Provider == K3s, K3sPodCIDR), "the default of k3s"},
		candidate{covering(network.NodePodCIDRs), "a guess around spec.podCIDRs of the nodes"},
	)
	n.ServiceCIDRs, n.ServiceSource = firstOf(
		candidate{split(request.ServiceCIDR), asked},
		candidate{split(installed.ServiceCIDR), has},
		candidate{network.ServiceCIDRs, "ServiceCIDR objects"},
		candidate{split(facts.Cloud.ServiceCIDR), cloudOf(request)},
		candidate{network.OpenShiftServices, "Network cluster of OpenShift"},
		candidate{split(network.KubeadmServiceSubnet), "ConfigMap kubeadm-config"},
		candidate{split(args["service-cluster-ip-range"]), "arguments of kube-controller-manager"},
		candidate{split(k3s["service-cidr"]), "arguments of the k3s server"},
		candidate{rangeOfError(network.ServiceError), "the API server"},
		candidate{only(request.Provider == K3s, K3sServiceCIDR), "the default of k3s"},
	)
	return n
}

// Sources outside the cluster's objects.
const (
	asked = "the request"
	has   = "the installation"
)

func cloudOf(request Request) string {
	return "the API of " + strings.ToUpper(string(request.Provider))
}

type candidate struct {
	cidrs  []string
	source string
}

func firstOf(candidates ...candidate) (cidrs []string, source string) {
	for _, c := range candidates {
		if len(c.cidrs) > 0 {
			return c.cidrs, c.source
		}
	}
	return nil, ""
}

func split(list string) []string {
	var out []string
	for item := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		out = append(out, item)
	}
	return out
}

func only(yes bool, cidr string) []string {
	if yes {
		return []string{cidr}
	}
	return nil
}

// arguments parses --name=value and --name value.
func arguments(args []string) map[string]string {
	out := map[string]string{}
	for i, arg := range args {
		name, ok := strings.CutPrefix(arg, "--")
		if !ok {
			continue
		}
		if key, value, found := strings.Cut(name, "="); found {
			out[key] = value
		} else if i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
			out[name] = args[i+1]
		}
	}
	return out
}

// covering returns the smallest range per address family that contains the ranges of all nodes, but at least a /16 (IPv4) or a /48 (IPv6).
//
// It is a guess, because no object contains the range of the cluster. The range of the next node will be near the current ones, and node
// ranges are commonly cut from a /16.
func covering(nodeCIDRs []string) []string {
	var families [2]netip.Prefix
	for _, text := range nodeCIDRs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			continue
		}
		family := 0
		if prefix.Addr().Is6() {
			family = 1
		}
		if !families[family].IsValid() {
			families[family] = prefix.Masked()
			continue
		}
		for !families[family].Contains(prefix.Addr()) || families[family].Bits() > prefix.Bits() {
			families[family] = netip.PrefixFrom(families[family].Addr(), families[family].Bits()-1).Masked()
		}
	}
	var out []string
	for family, prefix := range families {
		if !prefix.IsValid() {
			continue
		}
		if widest := []int{16, 48}[family]; prefix.Bits() > widest {
			prefix = netip.PrefixFrom(prefix.Addr(), widest).Masked()
		}
		out = append(out, prefix.String())
	}
	return out
}

var validRange = regexp.MustCompile(`range of valid IPs is ([0-9a-fA-F.:]+/[0-9]+)`)

func rangeOfError(message string) []string {
	if match := validRange.FindStringSubmatch(message); match != nil {
		return []string{match[1]}
	}
	return nil
}

// checkNetworks returns the problems with the ranges, each with a cure. joined means that the network of the cluster will be connected to
// those of other clusters.
func checkNetworks(n Networks, facts NetworkFacts, reserved []string, joined bool) []Problem {
	var out []Problem
	if joined && len(n.PodCIDRs) > 0 && !slices.ContainsFunc(n.PodCIDRs, func(cidr string) bool { return !strings.Contains(cidr, ":") }) {
		out = append(out, Problem{fmt.Sprintf("the pods of the cluster have IPv6 addresses only (%s, %s), which the network between clusters does not carry",
			strings.Join(n.PodCIDRs, ", "), n.PodSource), "install without it: --set networking.enabled=false"})
	}
	if len(n.PodCIDRs) == 0 {
		out = append(out, Problem{"no object of the cluster contains its pod CIDR",
			"give it with --pod-cidr, as the CNI or the kube-controller-manager (--cluster-cidr) is configured"})
	}
	if len(n.ServiceCIDRs) == 0 {
		out = append(out, Problem{"no object of the cluster contains its service CIDR",
			"give it with --service-cidr, as the API server (--service-cluster-ip-range) is configured"})
	}
	var ranges []source
	for _, list := range []struct {
		cidrs []string
		from  string
	}{{n.PodCIDRs, n.PodSource}, {n.ServiceCIDRs, n.ServiceSource}} {
		for _, text := range list.cidrs {
			prefix, problem := parse(text, list.from)
			if problem != nil {
				out = append(out, *problem)
				continue
			}
			for _, other := range ranges {
				if other.prefix.Overlaps(prefix) {
					out = append(out, Problem{fmt.Sprintf("%s (%s) overlaps %s (%s)", text, list.from, other.prefix, other.from),
						"check both against the configuration of the cluster"})
				}
			}
			ranges = append(ranges, source{prefix, list.from})
		}
	}
	out = append(out, outside(n, facts)...)
	// A reserved subnet may contain other ranges, for example if it is the range of the whole data centre. So only its syntax is checked.
	for _, text := range reserved {
		if _, problem := parse(text, "flag --reserved-subnets or value ipam.reservedSubnets"); problem != nil {
			out = append(out, *problem)
		}
	}
	return out
}

// outside reports addresses in use that the ranges do not contain. The ranges are then wrong or incomplete.
func outside(n Networks, facts NetworkFacts) []Problem {
	var out []Problem
	if address, err := netip.ParseAddr(facts.ServiceAddress); err == nil && !holds(n.ServiceCIDRs, address) {
		out = append(out, Problem{fmt.Sprintf("Service kubernetes has the address %s, which is not in the service CIDR %s (%s)",
			address, strings.Join(n.ServiceCIDRs, ", "), n.ServiceSource), "give the right one with --service-cidr"})
	}
	for _, pod := range facts.PodAddresses {
		if address, err := netip.ParseAddr(pod.Address); err == nil && !holds(n.PodCIDRs, address) {
			return append(out, Problem{fmt.Sprintf("pod %s has the address %s, which is not in the pod CIDR %s (%s)",
				pod.Pod, address, strings.Join(n.PodCIDRs, ", "), n.PodSource), "give all ranges of the pods with --pod-cidr"})
		}
	}
	return out
}

// holds reports whether one of the ranges contains the address. It also returns true if all ranges have the other address family, because such
// addresses are not checked.
func holds(ranges []string, address netip.Addr) bool {
	family := false
	for _, text := range ranges {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || prefix.Contains(address) {
			return true
		}
		family = family || prefix.Addr().Is4() == address.Is4()
	}
	return !family
}

type source struct {
	prefix netip.Prefix
	from   string
}

func parse(text, from string) (netip.Prefix, *Problem) {
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return prefix, &Problem{fmt.Sprintf("%q, from %s, is not a CIDR", text, from), "write it as address/bits, for example 10.244.0.0/16"}
	case prefix != prefix.Masked():
		return prefix, &Problem{fmt.Sprintf("%s, from %s, has bits set after its prefix", text, from), "write " + prefix.Masked().String()}
	}
	return prefix, nil
}
