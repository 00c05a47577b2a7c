package kinds

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
)

// NetworkPolicyOptions are the facts that decide what becomes of NetworkPolicies.
type NetworkPolicyOptions struct {
	CopyOptions
	// Twin returns the twin of a namespace of ours, false if it has none there.
	Twin func(namespace string) (string, bool)
	// Ours returns the range, in this cluster, whose addresses a block names and which has other addresses there, false if there is none. nil
	// tells that addresses mean the same there.
	Ours func(block netip.Prefix) (netip.Prefix, bool)
}

// NetworkPolicy returns the copy of local, or why it has none, and what the user should know of the peers that are left out.
//
// Whatever can't be said there is left out, so that the copy never lets through what the policy does not: a rule of which no peer is left goes
// whole, since one without peers is about everybody. What selects pods selects those that run there.
func NetworkPolicy(local *networkingv1.NetworkPolicy, namespace string, o NetworkPolicyOptions) (out *networkingv1.NetworkPolicy, why string, problem error) {
	if why := Kept(local.Annotations, o.CopyOptions); why != "" {
		return nil, why, nil
	}
	in := local.Spec.DeepCopy()
	out = &networkingv1.NetworkPolicy{ObjectMeta: copyMetadata(resourceNetworkPolicies, local, namespace, o.CopyOptions)}
	out.Spec.PodSelector, out.Spec.PolicyTypes = in.PodSelector, in.PolicyTypes
	var problems []string
	for i := range in.Ingress {
		if peers, ok := o.peers(fmt.Sprintf("spec.ingress[%d].from", i), in.Ingress[i].From, &problems); ok {
			out.Spec.Ingress = append(out.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{Ports: in.Ingress[i].Ports, From: peers})
		}
	}
	for i := range in.Egress {
		if peers, ok := o.peers(fmt.Sprintf("spec.egress[%d].to", i), in.Egress[i].To, &problems); ok {
			out.Spec.Egress = append(out.Spec.Egress, networkingv1.NetworkPolicyEgressRule{Ports: in.Egress[i].Ports, To: peers})
		}
	}
	if len(problems) > 0 {
		problem = errors.New("left out in cluster " + o.Destination + ", so that the policy lets less through there: " + strings.Join(problems, "; "))
	}
	return out, "", problem
}

// MergeNetworkPolicy returns have with what want says.
func MergeNetworkPolicy(have, want *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, Change) {
	out := have.DeepCopy()
	mergeMetadata(&out.ObjectMeta, &want.ObjectMeta)
	out.Spec = *want.Spec.DeepCopy()
	return merged(have, out)
}

// peers translates those of a rule; false tells that the rule is about nobody there.
func (o *NetworkPolicyOptions) peers(where string, in []networkingv1.NetworkPolicyPeer, problems *[]string) ([]networkingv1.NetworkPolicyPeer, bool) {
	var out []networkingv1.NetworkPolicyPeer
	for i := range in {
		p, keep, problem := in[i], true, error(nil)
		switch {
		case p.IPBlock != nil:
			problem = o.block(p.IPBlock)
			keep = problem == nil
		case p.NamespaceSelector != nil:
			p.NamespaceSelector, problem = o.namespaces(p.NamespaceSelector)
			keep = p.NamespaceSelector != nil
		}
		if problem != nil {
			*problems = append(*problems, fmt.Sprintf("%s[%d]: %v", where, i, problem))
		}
		if keep {
			out = append(out, p)
		}
	}
	return out, len(out) > 0 || len(in) == 0
}

// block tells what keeps a block of addresses from meaning the same there.
func (o *NetworkPolicyOptions) block(b *networkingv1.IPBlock) error {
	if o.Ours == nil {
		return nil
	}
	for i, text := range append([]string{b.CIDR}, b.Except...) {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("reading block %s: %w", text, err)
		}
		if everybody := i == 0 && prefix.Bits() == 0; everybody {
			continue
		}
		if ours, is := o.Ours(prefix.Masked()); is {
			return fmt.Errorf("block %s has addresses of %s, which has others there", text, ours)
		}
	}
	return nil
}

// namespaces translates a selector of namespaces of ours into one of their twins; nil if it is about none. Labels of namespaces do not
// travel, so that they are selected by name, or all of them. kube-system is another namespace in every cluster, and the same: pods ask the DNS
// server of the cluster that they run in.
func (o *NetworkPolicyOptions) namespaces(in *metav1.LabelSelector) (*metav1.LabelSelector, error) {
	var names []string
	all := true
	narrow := func(to []string) {
		if all {
			names, all = slices.Clone(to), false
			return
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(to, name) })
	}
	cant := errors.New("namespaces can be selected there by label " + corev1.LabelMetadataName + ", and by no other")
	for key, value := range in.MatchLabels {
		if key != corev1.LabelMetadataName {
			return nil, cant
		}
		narrow([]string{value})
	}
	for _, e := range in.MatchExpressions {
		switch {
		case e.Key != corev1.LabelMetadataName:
			return nil, cant
		case e.Operator == metav1.LabelSelectorOpIn:
			narrow(e.Values)
		case e.Operator != metav1.LabelSelectorOpExists: // every namespace has a name
			return nil, cant
		}
	}
	if all { // those of this cluster
		return &metav1.LabelSelector{
			MatchLabels:      map[string]string{api.LabelRemoteClusterID: o.Origin},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: api.LabelTenantNamespace, Operator: metav1.LabelSelectorOpDoesNotExist}},
		}, nil
	}
	var twins, without []string
	for _, name := range names {
		if twin, ok := o.Twin(name); ok {
			twins = append(twins, twin)
		} else if name == metav1.NamespaceSystem {
			twins = append(twins, name)
		} else {
			without = append(without, name)
		}
	}
	var problem error
	if len(without) > 0 {
		problem = errors.New("namespace " + strings.Join(without, ", ") + " is not offloaded to that cluster")
	}
	if len(twins) == 0 {
		return nil, problem
	}
	slices.Sort(twins)
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: slices.Compact(twins),
	}}}, problem
}
