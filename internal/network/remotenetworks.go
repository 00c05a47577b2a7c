package network

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ipam"
)

// RemoteNetwork is a range of a peer that needs a view in this cluster.
type RemoteNetwork struct {
	// Name is the name of the range's Network, in the namespace of the Configuration.
	Name string
	// CIDR is the range as the peer itself uses it.
	CIDR netip.Prefix
	// Type is a value of the label configuration.liqo.io/cidr-type.
	Type string
}

// RemoteNetworks returns the ranges in the spec of a Configuration: pods first, each list in its order. An error names the field, its value
// and the fix.
func RemoteNetworks(c *networkingv1beta1.Configuration) ([]RemoteNetwork, error) {
	cidrs := c.Spec.Remote.CIDR
	for field, list := range map[string][]string{"pod": cidrs.Pod, "external": cidrs.External} {
		if len(list) == 0 {
			return nil, fmt.Errorf("spec.remote.cidr.%s is empty: set it to the ranges of the peer, which liqoctl generate configuration prints there", field)
		}
	}
	var all []RemoteNetwork
	for _, list := range []struct {
		kind  string
		cidrs []string
	}{{networkingv1beta1.CIDRTypePod, cidrs.Pod}, {networkingv1beta1.CIDRTypeExternal, cidrs.External}} {
		for i, text := range list.cidrs {
			prefix, err := netip.ParsePrefix(text)
			if err != nil || !prefix.Addr().Is4() {
				return nil, fmt.Errorf("spec.remote.cidr.%s[%d] is %q, want an IPv4 range like 10.42.0.0/16", list.kind, i, text)
			}
			prefix = prefix.Masked()
			if why := ipam.SpecialPrefix(prefix); why != "" {
				return nil, fmt.Errorf("spec.remote.cidr.%s[%d] is %s, %s, which no cluster has", list.kind, i, prefix, why)
			}
			for _, other := range all {
				if other.CIDR.Overlaps(prefix) {
					return nil, fmt.Errorf("spec.remote.cidr.%s[%d] is %s, which overlaps %s of the same peer", list.kind, i, prefix, other.CIDR)
				}
			}
			all = append(all, RemoteNetwork{
				Name: c.Name + "-" + list.kind + "-" + strings.NewReplacer(".", "-", "/", "-").Replace(prefix.String()),
				CIDR: prefix, Type: list.kind,
			})
		}
	}
	return all, nil
}

// RemoteRanges fills in the ranges of a Configuration's status: the peer's ranges, and the range of this cluster that each one is mapped to, its
// view. status.ranges lists the ranges that have a view, also while other ranges still wait for theirs.
//
// status.remote has two lists, of pod and of external ranges, in the order of the spec. A list ends before its first range without a view.
// status.remote is nil while one of the lists would be empty. A range that only the peer named has no view while its Network is not ready.
//
// The returned condition repeats the messages of Networks that wait or conflict. The caller sets its time and generation.
func RemoteRanges(wanted []RemoteNetwork, networks map[string]*ipamv1alpha1.Network, status *networkingv1beta1.ConfigurationStatus) metav1.Condition {
	condition := metav1.Condition{
		Type: networkingv1beta1.ConditionCIDRsConfigured, Status: metav1.ConditionTrue, Reason: networkingv1beta1.ReasonCIDRsConfigured,
		Message: "every range of the peer is mapped in this cluster",
	}
	remote := &networkingv1beta1.ClusterConfig{}
	lists := map[string]*[]string{networkingv1beta1.CIDRTypePod: &remote.CIDR.Pod, networkingv1beta1.CIDRTypeExternal: &remote.CIDR.External}
	status.Ranges = nil
	ended := map[string]bool{}
	var waiting, wrong []string
	for _, w := range wanted {
		network := networks[w.Name]
		if network != nil {
			if ready := meta.FindStatusCondition(network.Status.Conditions, "Ready"); ready != nil && ready.Status == metav1.ConditionFalse && ready.Message != "" {
				wrong = appendOnce(wrong, fmt.Sprintf("Network %s: %s", w.Name, ready.Message))
			}
		}
		if network == nil || network.Status.CIDR == "" || refused(network) {
			waiting = appendOnce(waiting, w.Name)
			ended[w.Type] = true
			continue
		}
		status.Ranges = append(status.Ranges, networkingv1beta1.RemoteRange{Type: w.Type, CIDR: w.CIDR.String(), SeenAs: network.Status.CIDR})
		if list := lists[w.Type]; !ended[w.Type] {
			*list = append(*list, network.Status.CIDR)
		}
	}
	if len(waiting) > 0 || len(wrong) > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, networkingv1beta1.ReasonWaitingForNetworks
		condition.Message = strings.Join(wrong, "; ")
		if len(wrong) == 0 {
			condition.Message = "waiting for a range of Network " + strings.Join(waiting, ", ")
		}
	}
	if status.Remote = remote; len(remote.CIDR.Pod) == 0 || len(remote.CIDR.External) == 0 {
		status.Remote = nil
	}
	return condition
}

// refused reports whether a Network that only the peer named is not ready, because its range overlaps one that this cluster needs. An
// earlier version may have assigned that range.
func refused(n *ipamv1alpha1.Network) bool {
	return n.Labels[ipamv1alpha1.LabelNetworkNegotiated] == api.True && meta.IsStatusConditionFalse(n.Status.Conditions, "Ready")
}

// InTheWay returns the name of a Network that is being deleted and still has, or requests, addresses of the range; "" if there is none.
func InTheWay(wanted RemoteNetwork, leaving map[string]*ipamv1alpha1.Network) string {
	for _, name := range slices.Sorted(maps.Keys(leaving)) {
		for _, text := range []string{leaving[name].Spec.CIDR, leaving[name].Status.CIDR} {
			if cidr, err := netip.ParsePrefix(text); err == nil && cidr.Overlaps(wanted.CIDR) {
				return name
			}
		}
	}
	return ""
}

func appendOnce(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// LocalRanges returns this cluster's own ranges, as its Networks report them. If a range is missing, wait describes which one.
func LocalRanges(networks []ipamv1alpha1.Network) (local networkingv1beta1.ClusterConfig, wait string) {
	sorted := slices.SortedFunc(slices.Values(networks), func(a, b ipamv1alpha1.Network) int { return cmp.Compare(a.Name, b.Name) })
	for i := range sorted {
		network := &sorted[i]
		into := &local.CIDR.Pod
		switch network.Labels[ipamv1alpha1.LabelNetworkType] {
		case ipamv1alpha1.NetworkTypePod:
		case ipamv1alpha1.NetworkTypeExternal:
			into = &local.CIDR.External
		default:
			continue
		}
		if network.Status.CIDR == "" {
			wait = fmt.Sprintf("waiting for a range of Network %s/%s", network.Namespace, network.Name)
			if ready := meta.FindStatusCondition(network.Status.Conditions, "Ready"); ready != nil && ready.Message != "" {
				wait += ": " + ready.Message
			}
			return local, wait
		}
		*into = append(*into, network.Status.CIDR)
	}
	switch {
	case len(local.CIDR.Pod) == 0:
		return local, "waiting for a Network labelled " + ipamv1alpha1.LabelNetworkType + "=" + ipamv1alpha1.NetworkTypePod
	case len(local.CIDR.External) == 0:
		return local, "waiting for a Network labelled " + ipamv1alpha1.LabelNetworkType + "=" + ipamv1alpha1.NetworkTypeExternal
	}
	return local, ""
}
