package install

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Networks are the address ranges of a cluster and where each was learned, for people to judge.
type Networks struct {
	PodCIDRs      []string
	PodSource     string
	ServiceCIDRs  []string
	ServiceSource string
}

// NetworkFacts is everything in a cluster that may tell its address ranges. Empty parts were not found or not readable.
type NetworkFacts struct {
	// KubeadmPodSubnet and KubeadmServiceSubnet are from the networking section of kubeadm's ClusterConfiguration.
	KubeadmPodSubnet, KubeadmServiceSubnet string
	// ControllerManagerArgs are the arguments of the kube-controller-manager's container.
	ControllerManagerArgs []string
	// NodePodCIDRs are the spec.podCIDRs of every ordinary node.
	NodePodCIDRs []string
	// ServiceCIDRs are the ranges of the ServiceCIDR objects.
	ServiceCIDRs []string
	// ServiceError is the message with which the API server refuses a Service outside its range.
	ServiceError string
}

// DiscoverNetworks picks the best source for each range. What the user asks for, pods and service, wins; a provider's fixed ranges come last.
// A range that no source tells stays empty.
func DiscoverNetworks(provider Provider, pods []string, service string, facts NetworkFacts) Networks {
	args := arguments(facts.ControllerManagerArgs)
	var n Networks
	n.PodCIDRs, n.PodSource = firstOf(
		candidate{pods, "what was asked for"},
		candidate{split(facts.KubeadmPodSubnet), "ConfigMap kubeadm-config"},
		candidate{split(args["cluster-cidr"]), "arguments of kube-controller-manager"},
		candidate{only(provider == K3s, K3sPodCIDR), "the default of k3s"},
		candidate{covering(facts.NodePodCIDRs), "spec.podCIDRs of the nodes"},
	)
	n.ServiceCIDRs, n.ServiceSource = firstOf(
		candidate{split(service), "what was asked for"},
		candidate{facts.ServiceCIDRs, "ServiceCIDR objects"},
		candidate{split(facts.KubeadmServiceSubnet), "ConfigMap kubeadm-config"},
		candidate{split(args["service-cluster-ip-range"]), "arguments of kube-controller-manager"},
		candidate{rangeOfError(facts.ServiceError), "the API server"},
		candidate{only(provider == K3s, K3sServiceCIDR), "the default of k3s"},
	)
	return n
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
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

func only(yes bool, cidr string) []string {
	if yes {
		return []string{cidr}
	}
	return nil
}

// arguments reads --name=value and --name value.
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

// covering returns the smallest range that holds all the nodes' ranges, but not smaller than a /16 where that is possible: the range of
// the cluster is not written anywhere, the next node's share of it will lie beside those of today, and shares are commonly cut from a /16.
// One range per address family.
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

// checkNetworks returns what is wrong with the ranges, as problems with their cure; joined tells whether those of other clusters are to be
// joined with them.
func checkNetworks(n Networks, reserved []string, joined bool) []Problem {
	var out []Problem
	if joined && len(n.PodCIDRs) > 0 && !slices.ContainsFunc(n.PodCIDRs, func(cidr string) bool { return !strings.Contains(cidr, ":") }) {
		out = append(out, Problem{fmt.Sprintf("the pods of the cluster have IPv6 addresses only (%s, %s), which the network between clusters does not carry",
			strings.Join(n.PodCIDRs, ", "), n.PodSource), "install without it: --set networking.enabled=false"})
	}
	if len(n.PodCIDRs) == 0 {
		out = append(out, Problem{"the pod CIDR of the cluster is not told by any of its objects",
			"give it with --pod-cidr, as the CNI or the kube-controller-manager (--cluster-cidr) is configured"})
	}
	if len(n.ServiceCIDRs) == 0 {
		out = append(out, Problem{"the service CIDR of the cluster is not told by any of its objects",
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
	// A reserved subnet may well hold other ranges, that of the data centre for example, so it is only read.
	for _, text := range reserved {
		if _, problem := parse(text, "flag --reserved-subnets or value ipam.reservedSubnets"); problem != nil {
			out = append(out, *problem)
		}
	}
	return out
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
